#include "tools/python/kept_operand.h"

#include <algorithm>
#include <cstring>

#include "src/gpu/pipeline.h"

namespace fp4::python {

KeptOperand::KeptOperand(const QuantSpec& spec, int64_t rows, int64_t cols)
    : shape_{.spec = spec, .rows = rows, .cols = cols, .geometry = geometry_of(spec, rows, cols)} {
  const auto room = [](int64_t count, size_t size) { return (count * static_cast<int64_t>(size) + 15) / 16 * 16; };
  const BlockGeometry& g = shape_.geometry;
  codes_ = room(rows * shape_.code_row_bytes(), 1);
  scales_ = spec.has_scale() ? room(g.scale_rows * g.scale_cols, is_real(spec.scale) ? sizeof(float) : 1) : 0;
  factors_ = room(std::max<int64_t>(1, rows * spec.tensor_scale_cols(cols)), sizeof(TensorFactor));
}

void KeptOperand::save(const Quantized& q, uint8_t* to, gpu::Device* device) const {
  const auto put = [&](const auto& from, int64_t at) {
    const size_t bytes = from.size() * sizeof(*from.data());
    if (bytes == 0) return;
    if (device != nullptr)
      device->copy(to + at, from.data(), bytes);
    else
      std::memcpy(to + at, from.data(), bytes);
  };
  const auto put_all = [&](const auto& of, const auto& factors) {
    put(of.codes, 0), put(of.scales, codes_), put(of.real_scales, codes_), put(factors, codes_ + scales_);
  };
  if (device != nullptr)
    put_all(*q.resident, q.resident->factors);
  else
    put_all(q, q.tensor_scale);
}

Quantized KeptOperand::load(uint8_t* from, bool on_device) const {
  Quantized q = shape_;
  uint8_t *const scales = from + codes_, *const factors = scales + scales_;
  if (on_device) {
    q.resident = std::make_shared<const gpu::Resident>(
        gpu::resident_at(q.spec, q.rows, q.cols, from, scales, reinterpret_cast<TensorFactor*>(factors)));
    return q;
  }
  const auto take = [](auto& into, const uint8_t* at, int64_t count) {
    into.resize(static_cast<size_t>(count));
    if (count > 0) std::memcpy(into.data(), at, into.size() * sizeof(into[0]));
  };
  const int64_t count = q.spec.has_scale() ? q.geometry.scale_rows * q.geometry.scale_cols : 0;
  take(q.codes, from, q.rows * q.code_row_bytes());
  take(q.scales, scales, is_real(q.spec.scale) ? 0 : count);
  take(q.real_scales, scales, is_real(q.spec.scale) ? count : 0);
  take(q.tensor_scale, factors, std::max<int64_t>(1, q.rows * q.spec.tensor_scale_cols(q.cols)));
  return q;
}

}  // namespace fp4::python
