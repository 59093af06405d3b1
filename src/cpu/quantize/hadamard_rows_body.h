// Hadamards of matrices, row by row along the row (run_hadamard_body.h).
#pragma once

#include <vector>

#include "src/cpu/quantize/run_hadamard_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// y [rows, padded K] = H x, or its inverse: butterflies, normalisation, signs. Rows that do not run along memory or end
// within a tile are copied first.
FP4_TARGET inline void hadamard_rows(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse,
                                     float* y) {
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
  const int64_t cols = hadamard_padded(h, x.cols);
  const bool copies = x.col_stride != 1 || cols != x.cols;
  std::vector<float> copy(static_cast<size_t>(copies ? cols : 0));
  const F canonical = as_float(all(canonical_nan_bits));
  for (int64_t row = 0; row < x.rows; ++row) {
    const float* from = x.data + row * x.row_stride;
    for (int64_t k = 0; copies && k < x.cols; ++k) copy[static_cast<size_t>(k)] = from[k * x.col_stride];
    float* out = y + row * cols;
    transform_batch(run, copies ? copy.data() : from, static_cast<int>(cols), out);
    for (int64_t k = 0; k < cols; k += panel_rows) {
      const F v = as_float(bits(load(out + k)) ^ load(late_signs + k % h.size));
      store(out + k, select(is_nan(v), canonical, v));
    }
  }
}

}  // namespace fp4::FP4_ISA
