// Terms of more than 53 bits: dots of bare elements, exact in fp64, times scales of 24 bits (fp32 scales, encode's
// 1/mu). A term is two doubles, a product and what it lost. Sums of terms are kept in three parts of some 50 bits each,
// so that nothing is lost before the one rounding that the accumulator asks for (long_terms_fit: when three are
// enough).
#pragma once

#include "src/cpu/gemm/term_sums_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

struct LongTerm {
  D high;
  D low;
};

FP4_SIMD LongTerm long_term(D dot, D scale) {
  const D high = dot * scale;
  return {high, fma(dot, scale, all_double(0.0) - high)};
}

// a + b rounded to odd: a later rounding to fewer bits is that of the exact sum.
FP4_SIMD D odd_sum(D a, D b) {
  const D s = a + b;
  const D lost = lost_part(a, b, s);
  return made_odd(stepped_back(s, lost), lost != all_double(0.0));
}

// a + b + c rounded to odd, where c is far below a + b wherever that loses anything.
FP4_SIMD D odd_sum(D a, D b, D c) {
  const D s = a + b;
  return odd_sum(s, odd_sum(lost_part(a, b, s), c));
}

// One row's sums. The first two parts are sums of whole multiples of the last bits of where they start, 1.5 * 2^52 of
// those; the third is what lies below.
struct LongSum {
  alignas(64) double part[3][panel_rows];

  FP4_SIMD void open(const double (&start)[2]) {
    store(part[0], all_double(start[0]));
    store(part[1], all_double(start[1]));
    store(part[2], all_double(0.0));
  }
  // Adds to a part what of x reaches its last bit; the rest of x.
  FP4_SIMD D put(int i, D x) {
    const D before = load_double(part[i]);
    const D after = before + x;
    store(part[i], after);
    return x - (after - before);
  }
  FP4_SIMD void add(const LongTerm& t) {
    const D below = put(1, put(0, t.high));
    store(part[2], (load_double(part[2]) + below) + put(1, t.low));
  }
  // Rounded to odd.
  FP4_SIMD D total(const double (&start)[2]) const {
    return odd_sum(load_double(part[0]) - all_double(start[0]), load_double(part[1]) - all_double(start[1]),
                   load_double(part[2]));
  }
};

// As TermRows (gemm_terms_body.h), of bare elements.
struct LongRows : PanelRows {
  static constexpr bool has_long_terms = true;

  // Exact.
  FP4_SIMD D scale(int64_t k, int r) const {
    const double sa = a.scales_at(k)[row + r];
    return all_double(sa) * load_widened(b.scales_at(k));
  }
  // fl32(acc + term) for a block, whose scale is fl32(sA * sB).
  FP4_SIMD F block_step(int64_t k, int r, D dot, F acc) const {
    const LongTerm t = long_term(dot, widened(all(a.scales_at(k)[row + r]) * load(b.scales_at(k))));
    return narrowed(odd_sum(t.high, widened(acc), t.low));
  }
  FP4_SIMD void sums(const Folding& f, int64_t first, int64_t last, D (&sum)[term_rows]) const {
    LongSum total[term_rows];
    for (int r = 0; r < term_rows; ++r) total[r].open(f.long_start);
    for (int64_t k = first; k < last;) {
      const int64_t next = smaller(last, (k / f.run + 1) * f.run);
      D dot[term_rows];
      dots(k, next - k, dot);
      for (int r = 0; r < term_rows; ++r) total[r].add(long_term(dot[r], scale(k, r)));
      k = next;
    }
    for (int r = 0; r < term_rows; ++r) sum[r] = total[r].total(f.long_start);
  }
  // A term cut toward zero to whole units: those of its high part, and in `low` those of its low one, which count where
  // the high part is whole, toward zero of both.
  FP4_SIMD D cut(int64_t k, int r, D dot, D per_unit, D& low) const {
    const D zero = all_double(0.0);
    const LongTerm t = long_term(dot, scale(k, r));
    const D units = t.high * per_unit;
    const D high = truncated_whole(units);
    const D below = t.low * per_unit;
    const D whole = truncated_whole(below);
    const M steps_back = (whole != below) & (below * units < zero);
    const D stepped = whole + select(below < zero, all_double(-1.0), all_double(1.0));
    low = select(high != units, zero, select(steps_back, stepped, whole));
    return high;
  }
};

}  // namespace fp4::FP4_ISA
