// The two short ways to FP4 codes: a table over floor + ceil of the payload for every deterministic rounding, and
// stochastic rounding on the e2m1 grid in the integer domain. Everything else is format_lanes_body.h.
#pragma once

#include "src/cpu/quantize/load_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

// 1.5 * 2^23: adding it to |t| < 2^22 leaves t, rounded to an integer, in the low bits.
inline constexpr float to_integer = 12582912.0f;

struct TableConstants {
  ByteTable table;
  float steps;
  bool clamp;
};

// Bytes of a block by table: index = floor(steps*u) + ceil(steps*u), which sees every tie exactly because the
// product is rounded once, down, to an integer.
// With `lifted` the elements of a lane are multiplied by 2^64 or 1 first. Returns the sums of the bytes' squares.
template <bool lifted>
FP4_SIMD I table_bytes(const TableConstants& c, Columns x, int n, F inverse, F lift, int8_t* out) {
  const F factor = inverse * all(c.steps);
  const F magic = all(to_integer);
  I squares = all(0);
  for (int k = 0; k < n; k += 4) {
    I s[4];
    for (int i = 0; i < 4; ++i) {
      F u = load(x[k + i]);
      if (lifted) u = u * lift;
      s[i] = bits(fma_down(u, factor, magic)) - bits(negated_fma_down(u, factor, magic));
    }
    B index = packed_lanes(s[0], s[1], s[2], s[3]);
    if (c.clamp) index = within(index, -63, 63);
    const B bytes = look_up(c.table, index);
    store(out + k * panel_rows, bytes);
    squares = add_squares(squares, bytes);
  }
  return squares;
}

// Stochastic rounding on the e2m1 grid: with step = max(2^(e-1), 1/2), |u| * 2^n/step rounded to an integer is
// 2^n*lo/step + rne(t), so one conversion gives code and fraction together.
template <Rounding mode>
FP4_SIMD I stochastic_fp4(F x, F inverse, uint32_t n_bits, I draw) {
  const I magnitude_mask = all(0x7FFFFFFF);
  const F a = as_float(bits(x) & magnitude_mask);
  const I one = all(0x3F800000);
  const I top = all(0x40C00000);  // 6: everything above saturates, so the exponent may stop at 4
  // Rounded down: u never crosses into a binade, or to 6, that p*x/s itself does not reach.
  const I u = smaller(bits(multiply_down(a, inverse)), top);
  const I binade = larger(u & all(0x7F800000), one);
  // 2^n/step = 2^(n + 1 - e); the midpoint variant needs one bit more
  const uint32_t extra = mode == Rounding::stochastic_midpoint ? 1 : 0;
  const F per_step = as_float(all((254u + n_bits + 1u + extra) << 23) - binade);
  I t;
  if (mode == Rounding::stochastic) {
    t = bits(fma(a, inverse * per_step, all(to_integer))) - all(0x4B400000);
  } else {
    t = bits(fma_down(a, inverse * per_step, all(to_integer))) - all(0x4B400000);
    if (mode == Rounding::stochastic_midpoint) t = shift_right<1>(t + all(1));
  }
  const I steps = shift_right(t + draw, static_cast<int>(n_bits));
  const I fixed = smaller(shift_left(steps, shift_right<23>(binade - one)), all(12));
  const I saturated = select(u >= top, all(12), fixed);
  const I sign = shift_right_signed<31>(bits(x));
  return (saturated ^ sign) - sign;
}

template <Rounding mode>
FP4_SIMD void stochastic_bytes(Columns x, int n, F inverse, F lift, uint32_t n_bits, int offset,
                               const uint32_t (*draw)[panel_rows], int8_t* out) {
  for (int k = 0; k < n; k += 4) {
    I v[4];
    for (int i = 0; i < 4; ++i) {
      v[i] = stochastic_fp4<mode>(load(x[k + i]) * lift, inverse, n_bits, load(draw[k + i]));
    }
    const B b = packed_lanes(v[0], v[1], v[2], v[3]);
    store(out + k * panel_rows, offset == 0 ? b : add_bytes(b, all_bytes(static_cast<int8_t>(offset))));
  }
}

}  // namespace fp4::FP4_ISA
