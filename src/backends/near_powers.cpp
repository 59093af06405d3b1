#include "src/backends/near_powers.h"

#include <algorithm>

#include "src/threads/parallel.h"

namespace fp4 {

bool differs_near_powers_only(const QuantizeCall& call) {
  const QuantSpec& s = call.spec;
  return s.has_scale() && s.exponent == Exponent::float_log2 && s.scale_rule == ScaleRule::floor &&
         s.compute == Compute::fp32 && s.tensor_scale == TensorScale::none && s.block.kind == BlockKind::vector &&
         !is_real(s.scale) && !s.choice.is_on && !format_of(s.element).has_micro() && call.hadamard.size == 0 &&
         call.soft_alpha == 0.0f && !call.replays();
}

QuantizeCall with_exact_exponents(const QuantizeCall& call) {
  QuantizeCall exact = call;
  exact.spec.exponent = Exponent::bits;
  return exact;
}

void recode_near_powers(const QuantizeCall& call, Quantized& out) {
  // Of the fraction field; log2 of a subnormal is rounded from its own significand, so none is near a power here.
  constexpr uint32_t near = (1u << 23) - 88, smallest_normal = 1u << 23;
  const Quantizer q = resolve(call.spec);
  const MatrixView& x = call.x;
  const BlockGeometry& g = out.geometry;
  const auto code_again = [&](int64_t r, int64_t first) {
    const BlockView block = {x.data + r * x.row_stride + first * x.col_stride, x.row_stride, x.col_stride, 1,
                             std::min(g.block_cols, x.cols - first),           g.block_cols};
    const uint32_t scale = block_scale_code(q, block, {}, 0);
    const auto index = static_cast<size_t>(r * g.scale_cols + first / g.block_cols);
    if (out.scales[index] == scale || q.scale.is_nan_code(scale)) return;
    out.scales[index] = static_cast<uint8_t>(scale);
    for (int64_t c = 0; c < block.cols; ++c) {
      const int64_t k = first + c;
      const auto position = static_cast<uint64_t>((call.row_offset + r) * x.cols + k);
      const uint32_t draw = is_stochastic(q.rounding) ? call.draw(position, x.cols, q.random_bits) : 0u;
      const uint32_t code = element_code(q, block.at(0, c), scale, {}, draw);
      if (out.is_packed()) {
        uint8_t& byte = out.codes[static_cast<size_t>(r * out.code_row_bytes() + k / 2)];
        byte = static_cast<uint8_t>((byte & (k % 2 == 0 ? 0xF0 : 0x0F)) | static_cast<int>(code) << (4 * (k % 2)));
      } else {
        out.codes[static_cast<size_t>(r * out.code_row_bytes() + k)] = static_cast<uint8_t>(code);
      }
    }
  };
  parallel_for(0, x.rows, 1, call.threads, 16, [&](int64_t r) {
    const float* row = x.data + r * x.row_stride;
    for (int64_t first = 0; first < x.cols; first += g.block_cols) {
      const int64_t end = std::min(x.cols, first + g.block_cols);
      uint32_t amax = 0;
      for (int64_t k = first; k < end; ++k) {
        const uint32_t bits = bits_of(row[k * x.col_stride]) & 0x7FFFFFFFu;
        amax = std::max(amax, bits < float_infinity_bits ? bits : 0u);
      }
      if ((amax & (smallest_normal - 1)) >= near || (amax != 0 && amax < smallest_normal)) code_again(r, first);
    }
  });
}

}  // namespace fp4
