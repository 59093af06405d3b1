// The ways of a flat operand: by runs, or by segments where those do not know its spec.
#pragma once

#include "src/cpu/quantize/runs_avx512.h"
#include "src/cpu/quantize/segments_avx512.h"

namespace fp4::avx512 {

// Columns of its short rows; 0 where the operand has to keep its own.
inline int64_t flat_columns(const QuantPlan& p) {
  const int64_t width = run_width(p);
  return width > 0 ? width : segment_width(p);
}

// The full panels of a flat operand; returns how many those are.
inline int64_t quantize_flat(const Quantization& z, int threads) {
  void (*const loop)(const Quantization&, int64_t, int64_t) =
      run_width(*z.plan) > 0 ? quantize_by_runs : quantize_by_segments;
  return cpu::share_panels(*z.plan, threads, [&](int64_t first, int64_t last) { loop(z, first, last); });
}

}  // namespace fp4::avx512
