// Runs of sixteen adjacent 1 x B blocks of a row, in the layout of the files: maxima and codes are formed along the
// row, without transposes, and the scale rule runs once for all sixteen (lane = block). What needs more than fp32 takes
// the way of the lanes (quantize_body.h).
#pragma once

#include "src/fast/run_draws_avx512.h"

namespace fp4::avx512 {

// Where lane j of folded maxima finds its other half: 16 and more is the second vector.
struct FoldOrder {
  alignas(64) int32_t lane[panel_rows];
};
constexpr FoldOrder fold_order(int d) {
  FoldOrder order = {};
  for (int j = 0; j < panel_rows; ++j) order.lane[j] = (j ^ d) + ((j & d) != 0 ? panel_rows : 0);
  return order;
}

// Lane j: the larger of a[j] and a[j + d] where j has no bit d, of b[j - d] and b[j] where it has.
template <int d>
FP4_SIMD I folded_maxima(I a, I b) {
  constexpr __mmask16 high = d == 1 ? 0xAAAA : (d == 2 ? 0xCCCC : (d == 4 ? 0xF0F0 : 0xFF00));
  static constexpr FoldOrder order = fold_order(d);
  const __m512i other = _mm512_permutex2var_epi32(a.v, _mm512_load_si512(order.lane), b.v);
  return {_mm512_max_epu32(_mm512_mask_blend_epi32(high, a.v, b.v), other)};
}

// Bits of the largest magnitudes of blocks first, first + d, first + 2d ... in lanes that repeat them.
template <int width, int d>
FP4_SIMD I run_maxima(const float* x, int first) {
  if constexpr (d == panel_rows) {
    const I magnitude = all(0x7FFFFFFF);
    I m = bits(load(x + first * width * panel_rows)) & magnitude;
    for (int i = 1; i < width; ++i)
      m = larger_unsigned(m, bits(load(x + (first * width + i) * panel_rows)) & magnitude);
    return m;
  } else {
    return folded_maxima<d>(run_maxima<width, 2 * d>(x, first), run_maxima<width, 2 * d>(x, first + d));
  }
}

// false: some block's factor, or a payload, is out of reach.
FP4_SIMD bool find_factors(const QuantPlan& p, const RunPlan& r, I amax, const LaneScales& s, const LaneFactor& t,
                           RunFactors& out) {
  const M zero = amax == all(0);
  F factor;
  if (r.kind == RunKind::power) {
    if (any((s.code < all(27)) & ~zero)) return false;
    factor = inverse_power(s.code) * all(p.q.prescale * r.steps);
  } else if (r.kind == RunKind::product) {
    factor = smaller(all(1.0f) / (s.value * t.g), all(float_of(float_largest_bits)));
  } else {
    const bool encode = p.payload_path == PayloadPath::encode_exact;
    const F full = all(r.steps * p.q.prescale);
    const F divisor = encode ? t.g : s.value * t.g;
    factor = (encode ? full * s.stored : full) / divisor;
    if (any(~((factor < all(0x1p100f)) & (factor > all(0x1p-100f)) & (divisor > all(0x1p-100f))) & ~zero)) return false;
  }
  factor = select(zero, all(1.0f), factor);
  if (r.is_stochastic) {
    const bool exact = r.kind != RunKind::product;  // 256 times a payload's slope in each part of the code axis
    store(out.low, factor * all(exact ? 512.0f : 1.0f));
    store(out.high, factor * all(256.0f));
    store(out.third, factor * all(128.0f));
    return true;
  }
  // floor + ceil must stay below 64.
  const float largest = r.kind == RunKind::product ? 32.0f / r.steps : (r.kind == RunKind::power ? 32.0f : 31.0f);
  if (any(~(as_float(amax) * factor < all(largest)))) return false;
  if (r.kind == RunKind::quotient) {  // the estimate is within 2^-23 + 2^-46
    store(out.low, factor * all(1.0f - 0x1p-22f));
    store(out.high, factor * all(1.0f + 0x1p-22f));
  } else {
    store(out.low, factor);
  }
  return true;
}

// A run's codes; a block has `width` vectors.
template <RunKind kind, bool stochastic, int width>
FP4_SIMD void encode_run(const RunPlan& r, const Run& run, const RunFactors& f, const float* x, const uint8_t* draws,
                         uint8_t* out) {
  for (int first = 0; first < panel_rows * width; first += 8) {
    I codes[2];
    for (int odd = 0; odd < 2; ++odd) {
      const float* at[4];
      const uint8_t* draws_at[4];
      int block[4];
      for (int i = 0; i < 4; ++i) {
        const int vector = first + 2 * i + odd;
        at[i] = x + vector * panel_rows;
        draws_at[i] = draws + vector * panel_rows;
        block[i] = vector / width;
      }
      if constexpr (stochastic) {
        codes[odd] = drawn_codes<kind>(r, run, f, at, block, draws_at);
      } else {
        codes[odd] = table_codes<kind>(r, run, f, at, block);
      }
    }
    store_codes(codes[0], codes[1], out + first * 8);
  }
}

// A run whose maxima are known. false: nothing is to be used.
template <RunKind kind, bool stochastic, int width>
FP4_SIMD bool quantize_run(const Quantization& z, const RunPlan& r, const float* x, I amax, int64_t run) {
  const QuantPlan& p = *z.plan;
  if (any(amax >= all(0x7F800000))) return false;
  const LaneFactor t = {all(p.factor.g), all(p.factor.te_multiplier)};
  const LaneScales scales = scales_from_maxima(p, z.scale, amax, t, all(0));
  RunFactors factors;
  if (any(scales.rare) || !find_factors(p, r, amax, scales, t, factors)) return false;
  alignas(64) uint8_t draws[stochastic ? width * 256 : 1];
  if constexpr (stochastic) {
    const int64_t first = p.row_offset * p.cols / panel_rows + run * width * panel_rows;
    for (int i = 0; i < width; ++i) fill_run_draws(p, static_cast<uint32_t>(first + i * panel_rows), draws + i * 256);
  }
  _mm_storeu_si128(reinterpret_cast<__m128i*>(z.stored->scales.data() + run * panel_rows),
                   _mm512_cvtepi32_epi8(scales.code.v));
  encode_run<kind, stochastic, width>(r, {&p, &scales, &t}, factors, x, draws,
                                      z.stored->codes.data() + run * width * 128);
  return true;
}

// Panels [first, last) of a flat operand, which are full.
template <RunKind kind, bool stochastic, int width>
FP4_TARGET void quantize_runs(const Quantization& z, const RunPlan& r, int64_t first, int64_t last) {
  constexpr int64_t length = width * panel_rows * panel_rows;
  const int64_t runs = z.plan->cols * panel_rows / length;  // of a panel
  const float* x = z.plan->x.data;
  const int64_t end = last * runs;
  I amax = run_maxima<width, 1>(x + first * runs * length, 0);
  for (int64_t panel = first; panel < last; ++panel) {
    bool done = true;
    for (int64_t run = panel * runs; run < (panel + 1) * runs; ++run) {
      // The maxima of the next run fill the time that this one's scales take.
      const int64_t next = run + 1 < end ? run + 1 : run;
      for (int64_t line = 0; line < length; line += panel_rows) {
        _mm_prefetch(reinterpret_cast<const char*>(x + next * length + 2048 + line), _MM_HINT_T0);
      }
      const I upcoming = run_maxima<width, 1>(x + next * length, 0);
      done = quantize_run<kind, stochastic, width>(z, r, x + run * length, amax, run) && done;
      amax = upcoming;
    }
    if (!done) quantize_vector_panel(z, panel);
  }
}

using RunLoop = void (*)(const Quantization&, const RunPlan&, int64_t, int64_t);

template <RunKind kind>
RunLoop run_loop(bool stochastic, int block) {
  if (stochastic) return block == 16 ? quantize_runs<kind, true, 1> : quantize_runs<kind, true, 2>;
  return block == 16 ? quantize_runs<kind, false, 1> : quantize_runs<kind, false, 2>;
}

inline RunLoop run_loop(RunKind kind, bool stochastic, int block) {
  switch (kind) {
    case RunKind::power: return run_loop<RunKind::power>(stochastic, block);
    case RunKind::product: return run_loop<RunKind::product>(stochastic, block);
    case RunKind::quotient: return run_loop<RunKind::quotient>(stochastic, block);
    case RunKind::none: break;
  }
  return nullptr;
}

inline RunKind run_kind(const QuantPlan& p) {
  if (p.scale_path != ScalePath::power && p.scale_path != ScalePath::quotient) return RunKind::none;
  if (is_real(p.spec.scale) || is_stochastic(p.q.scale_rounding) || p.hadamard.size != 0) return RunKind::none;
  if (p.spec.block.kind != BlockKind::vector || (p.spec.block.size != 16 && p.spec.block.size != 32))
    return RunKind::none;
  const bool draws =
      p.code_path == CodePath::stochastic_fp4 && p.q.rounding == Rounding::stochastic && p.q.random_bits == 8;
  if (p.code_path != CodePath::table && !draws) return RunKind::none;
  switch (p.payload_path) {
    case PayloadPath::power: return RunKind::power;
    case PayloadPath::multiply:
      return p.q.arithmetic == Arithmetic::te && p.q.prescale == 1.0f ? RunKind::product : RunKind::none;
    case PayloadPath::exact:
    case PayloadPath::encode_exact: return RunKind::quotient;
    default: return RunKind::none;
  }
}

// Whether the operand goes by runs once it is flat.
inline bool has_runs(const QuantPlan& p) { return run_kind(p) != RunKind::none; }

FP4_TARGET inline RunPlan run_plan(const QuantPlan& p) {
  RunPlan r;
  r.kind = run_kind(p);
  r.drops = p.q.negative_zero == NegativeZero::drop;
  r.is_stochastic = p.code_path != CodePath::table;
  r.steps = r.is_stochastic ? 1.0f : p.steps;
  int8_t code_of[16] = {};
  for (uint32_t code = 0; code <= p.q.element.largest_code; ++code) {
    code_of[decode_fixed(p.q.element, code)] = static_cast<int8_t>(code);
  }
  alignas(64) int8_t codes[128];
  for (int i = 0; i < 128; ++i) {
    const int value = p.table[i];
    const bool negative = r.drops ? value < 0 : i >= 64;
    codes[i] = static_cast<int8_t>(code_of[value < 0 ? -value : value] + (negative ? 8 : 0));
  }
  r.codes = load_table(codes);
  return r;
}

// The full panels of a flat operand; returns how many those are.
FP4_TARGET inline int64_t quantize_flat(const Quantization& z, int threads) {
  const RunPlan r = run_plan(*z.plan);
  const RunLoop loop = run_loop(r.kind, r.is_stochastic, z.plan->spec.block.size);
  const int64_t full = z.plan->rows / panel_rows;
  constexpr int64_t share = 64;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (threads > 1)
  for (int64_t first = 0; first < full; first += share) loop(z, r, first, smaller(first + share, full));
  return full;
}

}  // namespace fp4::avx512
