// What kernels that go term by term in fp64 have in common: a panel's numbers, their dots, and sums of two doubles.
#pragma once

#include "src/cpu/gemm/panel_reader.h"
#include "src/cpu/gemm/tile_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// Scaled values of a panel and, for aligned sums, the weights of its terms.
struct TermPanel {
  const float* value = nullptr;     // [k][16]
  const double* wide = nullptr;     // the same
  const int32_t* weight = nullptr;  // [k / chunk][16] exponents; of zero factors of single products far below all
  int least = 0;                    // exponents of the non-zero values
  int largest = 0;
};

inline constexpr int term_rows = has_vnni ? 8 : 2;  // as many as registers hold sums of
inline constexpr int no_term = -(1 << 20);
inline constexpr int least_weight = -90;  // everything above it is in reach of fp32 powers, below it are only zeros

// The sum s of a and b as fp64 rounds it: what it lost, and one step back where it went away from zero.
FP4_SIMD D lost_part(D a, D b, D s) {
  const D b_part = s - a;
  return (a - (s - b_part)) + (b - b_part);
}
FP4_SIMD D stepped_back(D s, D lost) { return nudged(s, lost, s * lost < all_double(0.0)); }

// fl32(a + b) to nearest.
FP4_SIMD F nearest_sum(D a, D b) {
  D s = a + b;
  const M between = between_floats(s);
  if (any(between)) s = nudged(s, lost_part(a, b, s), between);
  return narrowed(s);
}

// a + b toward zero: where fp64 went away from zero, one step back passes no float.
FP4_SIMD F toward_zero_sum(D a, D b) {
  const D s = a + b;
  return narrowed_toward_zero(stepped_back(s, lost_part(a, b, s)));
}

// Dots of `count` scaled values, for some rows of A from a on.
FP4_SIMD void term_sums(const double* a, const double* b, int64_t count, D (&sum)[term_rows]) {
#pragma GCC unroll 8
  for (int r = 0; r < term_rows; ++r) sum[r] = all_double(0.0);
  for (int64_t k = 0; k < count; ++k) {
    const D column = load_double(b + k * panel_rows);
#pragma GCC unroll 8
    for (int r = 0; r < term_rows; ++r) sum[r] = exact_fma(broadcast_double(a + k * panel_rows + r), column, sum[r]);
  }
}

// Some rows of A, lane `row` on, times a panel of B.
struct PanelRows {
  const TermPanel& a;
  const TermPanel& b;
  int64_t row;

  FP4_SIMD void dots(int64_t k, int64_t count, D (&dot)[term_rows]) const {
    term_sums(a.wide + k * panel_rows + row, b.wide + k * panel_rows, count, dot);
  }
};

}  // namespace fp4::FP4_ISA
