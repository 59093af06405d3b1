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
#pragma GCC unroll 4
  for (int first = 0; first < panel_rows * width; first += 8) {
    I codes[2];
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; ++odd) {
      const int vector = first + odd;
      if constexpr (stochastic) {
        codes[odd] = drawn_codes<kind, width>(r, run, f, x + vector * panel_rows, vector, draws + vector * panel_rows);
      } else {
        codes[odd] = table_codes<kind, width>(r, run, f, x + vector * panel_rows, vector);
      }
    }
    store_codes(codes[0], codes[1], out + first * 8);
  }
}

// 512 elements on their way: two runs of blocks of 16, or one of blocks of 32.
inline constexpr int batch_length = 512;

template <int width>
struct BatchMaxima {
  I amax[2 / width];
};

template <int width>
FP4_SIMD BatchMaxima<width> batch_maxima(const float* x) {
  BatchMaxima<width> m;
#pragma GCC unroll 2
  for (int i = 0; i < 2 / width; ++i) m.amax[i] = run_maxima<width, 1>(x + i * 256, 0);
  return m;
}

template <int width>
struct Batch {
  RunFactors factors[2 / width];
  LaneScales scales[2 / width];
  bool usable;
  alignas(64) uint8_t draws[batch_length];
};

// From the maxima of a batch: its scales, stored, and its draws.
template <bool stochastic, int width>
FP4_SIMD void prepare_batch(const Quantization& z, const RunPlan& r, const LaneFactor& t, const BatchMaxima<width>& m,
                            int64_t index, Batch<width>& b) {
  const QuantPlan& p = *z.plan;
  b.usable = true;
#pragma GCC unroll 2
  for (int i = 0; i < 2 / width; ++i) {
    const LaneScales s = scales_from_maxima(p, z.scale, m.amax[i], t, all(0));
    b.scales[i] = s;
    b.usable =
        b.usable && !any((m.amax[i] >= all(0x7F800000)) | s.rare) && find_factors(p, r, m.amax[i], s, t, b.factors[i]);
    uint8_t* codes = z.stored->scales.data() + (index * (2 / width) + i) * panel_rows;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm512_cvtepi32_epi8(s.code.v));
  }
  if constexpr (stochastic) {
    fill_run_draws(r.keys, static_cast<uint32_t>(p.row_offset * p.cols / 16 + index * 32), b.draws);
  }
}

template <RunKind kind, bool stochastic, int width>
FP4_SIMD void encode_batch(const RunPlan& r, const QuantPlan& p, const LaneFactor& t, const Batch<width>& b,
                           const float* x, uint8_t* out) {
#pragma GCC unroll 2
  for (int i = 0; i < 2 / width; ++i) {
    encode_run<kind, stochastic, width>(r, {&p, &b.scales[i], &t}, b.factors[i], x + i * 256, b.draws + i * 256,
                                        out + i * 128);
  }
}

// Panels [first, last) of a flat operand, which are full. While a batch is encoded the scales of the next one and the
// maxima of the one after that are on their way: either would keep the processor waiting.
template <RunKind kind, bool stochastic, int width>
FP4_TARGET void quantize_runs(const Quantization& z, const RunPlan& r, int64_t first, int64_t last) {
  const QuantPlan& p = *z.plan;
  const LaneFactor t = {all(p.factor.g), all(p.factor.te_multiplier)};
  const int64_t batches = p.cols * panel_rows / batch_length;  // of a panel
  const int64_t end = last * batches;
  const float* x = p.x.data;
  Batch<width> ring[2];
  int64_t at = first * batches;
  prepare_batch<stochastic>(z, r, t, batch_maxima<width>(x + at * batch_length), at, ring[at % 2]);
  BatchMaxima<width> maxima = batch_maxima<width>(x + smaller(at + 1, end - 1) * batch_length);
  for (int64_t panel = first; panel < last; ++panel) {
    bool done = true;
    for (; at < (panel + 1) * batches; ++at) {
      if (at + 1 < end) prepare_batch<stochastic>(z, r, t, maxima, at + 1, ring[(at + 1) % 2]);
      const float* after_next = x + smaller(at + 2, end - 1) * batch_length;
#pragma GCC unroll 32
      for (int line = 0; line < batch_length; line += panel_rows) prefetch(after_next + 2048 + line);
      maxima = batch_maxima<width>(after_next);
      const Batch<width>& b = ring[at % 2];
      done = done && b.usable;
      if (done) {
        encode_batch<kind, stochastic, width>(r, p, t, b, x + at * batch_length,
                                              z.stored->codes.data() + at * (batch_length / 2));
      }
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
  r.is_stochastic = p.code_path != CodePath::table;
  if (r.is_stochastic) r.keys = run_keys(p.place);
  r.drops = p.q.negative_zero == NegativeZero::drop;
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
