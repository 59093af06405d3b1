// Codes back to floats along the rows, sixteen neighbours at a time.
#pragma once

#include "src/cpu/quantize/stored_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

template <int width>
FP4_TARGET void dequantize_rows(const Quantized& q, float* out) {
  const Quantizer r = resolve(q.spec);
  const DecodeTables t = decode_tables(q.spec, r);
  const bool has_scale = q.spec.has_scale();
  const bool joins = has_scale && r.decode != Decode::scale_then_tensor;  // both factors to one, of a block
  const float top = r.top();
  const int64_t block = has_scale ? q.geometry.block_cols : q.cols;  // 8, a multiple of 16, or all of K
  const int64_t step = larger<int64_t>(block, panel_rows);
  for (int64_t row = 0; row < q.rows; ++row) {
    const uint8_t* codes = q.codes.data() + row * q.code_row_bytes();
    float* to = out + row * q.cols;
    int64_t scale = has_scale ? q.scale_index(row, 0) : 0;
    F s = all(1.0f);
    F g = joins ? all(1.0f) : stored_factors(q, row, 1, 0);
    const auto next_scale = [&](int64_t k) {
      const float value = stored_scale(q, r, t, scale++);
      const bool alone = !joins || q.spec.tensor_scale == TensorScale::none;
      return alone ? value : decode_factor(r.decode, value, q.tensor_factor_at(row, k), top);
    };
    for (int64_t k0 = 0; k0 < q.cols; k0 += step) {
      if (has_scale) s = all(next_scale(k0));
      if (block < panel_rows && k0 + block < q.cols) s = select(first_lanes(8), s, all(next_scale(k0 + block)));
      if (q.spec.tensor_scale_cols(q.cols) > 0 && !joins) g = all(q.tensor_factor_at(row, k0));
      const int64_t end = smaller(k0 + step, q.cols);
      int64_t k = k0;
      for (; k + panel_rows <= end; k += panel_rows) {
        const I code = neighbours<width>(codes + k * width / 8);
        const F element = width == 4 ? look_up_16(t.element, code) : decoded_codes(r, t, code);
        store(to + k, stored_value(q.spec.prescale, element, s, g));
      }
      if (k == end) continue;
      alignas(64) uint8_t last[64] = {};
      std::memcpy(last, codes + k * width / 8, static_cast<size_t>(((end - k) * width + 7) / 8));
      const F element = decoded_codes(r, t, neighbours<width>(last));
      store(to + k, stored_value(q.spec.prescale, element, s, g), first_lanes(static_cast<int>(end - k)));
    }
  }
}

// Codes and scales back to out [rows, cols].
FP4_TARGET inline void dequantize_rows(const Quantized& q, float* out) {
  if (q.is_packed()) return dequantize_rows<4>(q, out);
  switch (q.code_bytes()) {
    case 1: return dequantize_rows<8>(q, out);
    case 2: return dequantize_rows<16>(q, out);
    default: return dequantize_rows<32>(q, out);
  }
}

}  // namespace fp4::FP4_ISA
