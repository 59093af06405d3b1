// Hadamards of contiguous rows as they lie, without the detour over sixteen rows in sixteen lanes.
#pragma once

#include "src/cpu/quantize/run_hadamard_body.h"
#include "src/cpu/quantize/stored_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// hadamard_to for rows of whole tiles. false: the tiles have other strides or sizes.
FP4_TARGET inline bool hadamard_rows(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse,
                                     float* y) {
  if (x.col_stride != 1 || h.size < panel_rows || x.cols % h.size != 0) return false;
  QuantPlan p;
  p.hadamard = h;
  p.signs = hadamard_signs(h, place);
  RunHadamard run = run_hadamard(p);
  alignas(64) uint32_t late_signs[256] = {};  // the inverse flips them at its end
  if (inverse) {
    std::memcpy(late_signs, run.signs, sizeof(uint32_t) * static_cast<size_t>(h.size));
    std::memset(run.signs, 0, sizeof run.signs);
    run.factor = inverse_factor(h);
  }
  const F canonical = as_float(all(canonical_nan_bits));
  for (int64_t row = 0; row < x.rows; ++row) {
    float* out = y + row * x.cols;
    transform_batch(run, x.data + row * x.row_stride, static_cast<int>(x.cols), out);
    for (int64_t k = 0; k < x.cols; k += panel_rows) {
      const F v = as_float(bits(load(out + k)) ^ load(late_signs + k % h.size));
      store(out + k, select(is_nan(v), canonical, v));
    }
  }
  return true;
}

}  // namespace fp4::FP4_ISA
