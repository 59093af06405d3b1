// Runs of sixteen adjacent 1 x B blocks of a row with AVX2, in the layout of the files: nearest even to formats of up
// to eight bits with a mantissa, eight elements at a time as they lie. Everything else comes into lanes, sixteen rows
// at a time (quantize_body.h): further runs (runs_avx512.h) live on roundings of single instructions and tables of 128
// bytes.
#pragma once

#include "src/cpu/quantize/flat_operand.h"
#include "src/cpu/quantize/quantize_body.h"
#include "src/cpu/quantize/run_hadamard_body.h"
#include "src/cpu/quantize/run_kinds_body.h"
#include "src/cpu/simd/avx2.h"

namespace fp4::avx2 {

// How codes are formed: two or one in a byte, or two by draws of eight bits.
enum class RunCodes : uint8_t { nibbles, bytes, draws };
inline constexpr int draw_bits = 8;

struct RunPlan {
  RunKind kind = RunKind::none;
  RunCodes form = RunCodes::nibbles;
  ByteCodes codes;
  bool drops = false;  // the sign of zero
  RunHadamard hadamard;
};

FP4_SIMD __m256i load_bits(const float* x) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)); }
FP4_SIMD __m256i magnitude_bits(__m256i x) { return _mm256_and_si256(x, _mm256_set1_epi32(0x7FFFFFFF)); }

// Bits of the largest magnitudes of eight adjacent blocks, lane = block.
template <int block>
FP4_SIMD __m256i eight_maxima(const float* x) {
  __m256i m[8];
#pragma GCC unroll 8
  for (int b = 0; b < 8; ++b) {
    m[b] = magnitude_bits(load_bits(x + b * block));
#pragma GCC unroll 4
    for (int i = 8; i < block; i += 8) m[b] = _mm256_max_epu32(m[b], magnitude_bits(load_bits(x + b * block + i)));
  }
  __m256i four[2];
  for (int i = 0; i < 2; ++i) {
    __m256i two[2];
    for (int j = 0; j < 2; ++j) {
      const __m256i a = m[4 * i + 2 * j];
      const __m256i b = m[4 * i + 2 * j + 1];
      two[j] = _mm256_max_epu32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    }
    four[i] = _mm256_max_epu32(_mm256_unpacklo_epi64(two[0], two[1]), _mm256_unpackhi_epi64(two[0], two[1]));
  }
  return _mm256_max_epu32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                          _mm256_permute2x128_si256(four[0], four[1], 0x31));
}

// ByteCodes in registers of eight.
struct CodeConstants {
  __m256 largest;
  __m256i least_binade;
  __m256i to_unit;  // from a binade to the power of two whose last place is its grid step, or 2^-8 of it
  __m256i to_step;
  __m256i start;  // what the constants add to a code, in words
  __m256i sign;   // in words
  __m128i sign_shift;
};
FP4_SIMD CodeConstants code_constants(const RunPlan& r) {
  const ByteCodes& c = r.codes;
  const int below = 23 - c.mantissa_bits;
  const int last = r.form == RunCodes::draws ? below - draw_bits : below;  // place of the fraction's, or the step's
  return {_mm256_set1_ps(c.largest),
          _mm256_set1_epi32(static_cast<int>(c.least_binade)),
          _mm256_set1_epi32(last << 23),
          _mm256_set1_epi32(below),
          _mm256_set1_epi16(static_cast<int16_t>(c.least_binade >> below)),
          _mm256_set1_epi16(static_cast<int16_t>(c.sign)),
          _mm_cvtsi32_si128(c.sign_shift - 16)};
}

// Eight payloads on their way: one sum rounds to nearest even and counts the steps of a binade, whose field counts
// those of the binades below.
struct NearestCodes {
  __m256i binade;
  __m256i unit;
  __m256i counted;
};
FP4_SIMD __m256 scaled_magnitudes(const CodeConstants& c, __m256i magnitude, float factor) {
  return _mm256_min_ps(_mm256_mul_ps(_mm256_castsi256_ps(magnitude), _mm256_set1_ps(factor)), c.largest);
}
FP4_SIMD NearestCodes nearest_codes(const CodeConstants& c, __m256 u) {
  NearestCodes n;
  n.binade = _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(u), _mm256_set1_epi32(0x7F800000)), c.least_binade);
  n.unit = _mm256_add_epi32(n.binade, c.to_unit);
  n.counted = _mm256_castps_si256(_mm256_add_ps(u, _mm256_castsi256_ps(n.unit)));
  return n;
}
// Magnitude codes plus CodeConstants::start. A draw carries into the steps.
template <RunCodes form>
FP4_SIMD __m256i codes_of(const CodeConstants& c, const NearestCodes& n, const uint8_t* draws) {
  __m256i steps = _mm256_sub_epi32(n.counted, n.unit);
  if constexpr (form == RunCodes::draws) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(draws));
    steps = _mm256_srli_epi32(_mm256_add_epi32(steps, _mm256_cvtepu8_epi32(eight)), draw_bits);
  }
  return _mm256_add_epi32(steps, _mm256_srlv_epi32(n.binade, c.to_step));
}
// Bits are set where payloads from there up to u, far less than a step above, may have other codes. Where u alone is in
// the next binade, either rounds to its first value.
FP4_SIMD __m256i others_up_to(const NearestCodes& n, __m256 u) {
  return _mm256_xor_si256(n.counted, _mm256_castps_si256(_mm256_add_ps(u, _mm256_castsi256_ps(n.unit))));
}

struct RunFactors {
  alignas(64) float low[panel_rows];
  alignas(64) float high[panel_rows];  // quotient: above the exact factor, as `low` is below it
};

// A byte each for 32 elements from x on, the first one of block `first` of a run. Sets bits of `doubt` where the bounds
// of a quotient have different codes.
template <RunKind kind, int block, RunCodes form>
FP4_SIMD __m256i run_codes(const RunPlan& r, const CodeConstants& c, const RunFactors& f, const float* x, int first,
                           const uint8_t* draws, __m256i& doubt) {
  __m256i words[2];
#pragma GCC unroll 2
  for (int pair = 0; pair < 2; ++pair) {
    __m256i bits[2];
    __m256i code[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const int at = (2 * pair + i) * 8;
      const int b = first + at / block;
      bits[i] = load_bits(x + at);
      const __m256i magnitude = magnitude_bits(bits[i]);
      const NearestCodes n = nearest_codes(c, scaled_magnitudes(c, magnitude, f.low[b]));
      code[i] = codes_of<form>(c, n, draws + at);
      if constexpr (kind == RunKind::quotient) {
        doubt = _mm256_or_si256(doubt, others_up_to(n, scaled_magnitudes(c, magnitude, f.high[b])));
      }
    }
    // A float packed to a word, with saturation, keeps its sign.
    const __m256i signs = _mm256_srl_epi16(_mm256_packs_epi32(bits[0], bits[1]), c.sign_shift);
    const __m256i codes = _mm256_sub_epi16(_mm256_packs_epi32(code[0], code[1]), c.start);
    words[pair] = _mm256_or_si256(codes, _mm256_and_si256(signs, c.sign));
  }
  __m256i bytes = _mm256_packus_epi16(words[0], words[1]);
  if (r.drops) {
    const __m256i minus_zero = _mm256_set1_epi8(static_cast<char>(r.codes.sign));
    bytes = _mm256_andnot_si256(_mm256_cmpeq_epi8(bytes, minus_zero), bytes);
  }
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Codes of sixteen blocks; false: some element is in doubt.
template <RunKind kind, int block, RunCodes form>
FP4_SIMD bool encode_run(const RunPlan& r, const CodeConstants& c, const RunFactors& f, const float* x,
                         const uint8_t* draws, uint8_t* out) {
  __m256i doubt = _mm256_setzero_si256();
  for (int i = 0; i < panel_rows * block; i += 64) {
    const __m256i low = run_codes<kind, block, form>(r, c, f, x + i, i / block, draws + i, doubt);
    const __m256i high = run_codes<kind, block, form>(r, c, f, x + i + 32, (i + 32) / block, draws + i + 32, doubt);
    if constexpr (form == RunCodes::bytes) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), low);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i + 32), high);
    } else {
      const __m256i weights = _mm256_set1_epi16(0x1001);
      const __m256i nibbles =
          _mm256_packus_epi16(_mm256_maddubs_epi16(low, weights), _mm256_maddubs_epi16(high, weights));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i / 2), _mm256_permute4x64_epi64(nibbles, 0xD8));
    }
  }
  return _mm256_testz_si256(doubt, doubt) != 0;
}

// The draws of `length` elements, a multiple of 256, from position `first` on, a multiple of 16.
FP4_SIMD void fill_run_draws(const RandomPlace& place, int64_t first, int length, uint8_t* draws) {
  for (int i = 0; i < length; i += 256) {
    const I block = lane_numbers() + all(static_cast<uint32_t>((first + i) / 16));
    const Words w = philox(block, place.stream, place.step, place.seed);
    alignas(64) uint32_t words[4][panel_rows];
    for (int j = 0; j < 4; ++j) store(words[j], w.word[j]);
    store_transposed_dwords(words, draws + i, 16);
  }
}

// The scales of sixteen blocks, stored, and what their elements are multiplied by. false: not by runs.
template <RunKind kind, int block>
FP4_SIMD bool run_scales(const Quantization& z, const LaneFactor& t, const float* x, uint8_t* scales, RunFactors& f) {
  const QuantPlan& p = *z.plan;
  const I amax = {eight_maxima<block>(x), eight_maxima<block>(x + 8 * block)};
  const LaneScales s = scales_from_maxima(p, z.scale, amax, t, all(0));
  F factor;
  if (any((amax >= all(0x7F800000)) | s.rare) || !block_factors(p, kind, 1.0f, amax, s, t, factor)) return false;
  if (kind == RunKind::quotient) {  // 2^-23 and a little off, and its products with these and elements 2^-24 each
    store(f.low, factor * all(1.0f - 0x1.8p-22f));
    store(f.high, factor * all(1.0f + 0x1.8p-22f));
  } else {
    store(f.low, factor);
  }
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(s.code.a, s.code.b), 0xD8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(scales),
                   _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  return true;
}

// Panels [first, last) of a flat operand, which are full.
template <RunKind kind, int block, RunCodes form>
FP4_TARGET void quantize_runs(const Quantization& z, const RunPlan& r, int64_t first, int64_t last) {
  const QuantPlan& p = *z.plan;
  constexpr int length = panel_rows * block;
  const LaneFactor t = {all(p.factor.g), all(p.factor.te_multiplier)};
  const CodeConstants c = code_constants(r);
  const int64_t runs = p.cols / block;  // of a panel
  for (int64_t panel = first; panel < last; ++panel) {
    bool done = true;
    for (int64_t run = panel * runs; done && run < (panel + 1) * runs; ++run) {
      const float* x = p.x.data + run * length;
      alignas(64) float transformed[length];
      if (r.hadamard.size > 0) {
        transform_batch(r.hadamard, x, length, transformed);
        x = transformed;
      }
      uint8_t* out = z.stored->codes.data() + run * (form == RunCodes::bytes ? length : length / 2);
      alignas(64) uint8_t draws[length];
      if (form == RunCodes::draws) fill_run_draws(p.place, p.row_offset * p.cols + run * length, length, draws);
      RunFactors f;
      done = run_scales<kind, block>(z, t, x, z.stored->scales.data() + run * panel_rows, f) &&
             encode_run<kind, block, form>(r, c, f, x, draws, out);
    }
    if (!done) quantize_vector_panel(z, panel);
  }
}

inline RunKind run_kind(const QuantPlan& p) {
  const bool nearest = p.q.rounding == Rounding::nearest_even && p.q.element.has_zero &&
                       p.q.element.mantissa_bits > 0 && p.q.element.code_bits() <= 8;
  const bool is_known = (nearest || draws_for_runs(p)) && p.q.prescale == 1.0f && p.scale_path != ScalePath::trials &&
                        !p.spec.has_outer_scale();
  return is_known ? factor_kind(p) : RunKind::none;
}

using RunLoop = void (*)(const Quantization&, const RunPlan&, int64_t, int64_t);

template <RunKind kind, RunCodes form>
RunLoop run_loop(int block) {
  return block == 16 ? quantize_runs<kind, 16, form> : quantize_runs<kind, 32, form>;
}
template <RunKind kind>
RunLoop run_loop(RunCodes form, int block) {
  switch (form) {
    case RunCodes::nibbles: return run_loop<kind, RunCodes::nibbles>(block);
    case RunCodes::bytes: return run_loop<kind, RunCodes::bytes>(block);
    case RunCodes::draws: return run_loop<kind, RunCodes::draws>(block);
  }
  return nullptr;
}
inline RunLoop run_loop(const RunPlan& r, int block) {
  switch (r.kind) {
    case RunKind::power: return run_loop<RunKind::power>(r.form, block);
    case RunKind::product: return run_loop<RunKind::product>(r.form, block);
    case RunKind::quotient: return run_loop<RunKind::quotient>(r.form, block);
    case RunKind::none: break;
  }
  return nullptr;
}

// Columns of the short rows of a flat operand; 0 where the operand has to keep its own.
inline int64_t flat_columns(const QuantPlan& p) { return run_kind(p) != RunKind::none ? cpu::flat_width(p, 32) : 0; }

// The full panels of a flat operand; returns how many those are.
inline int64_t quantize_flat(const Quantization& z, int threads) {
  const QuantPlan& p = *z.plan;
  const RunCodes deterministic = p.q.element.code_bits() == 4 ? RunCodes::nibbles : RunCodes::bytes;
  const RunPlan r = {run_kind(p), is_stochastic(p.q.rounding) ? RunCodes::draws : deterministic,
                     byte_codes(p.q.element), p.q.negative_zero == NegativeZero::drop, run_hadamard(p)};
  const RunLoop loop = run_loop(r, p.spec.block.size);
  return cpu::share_panels(p, threads, [&](int64_t first, int64_t last) { loop(z, r, first, last); });
}

inline bool has_row_segments(const Quantization&) { return false; }
inline bool encode_row_segments(const Quantization&, const Block&) { return false; }
inline bool quantize_square_panels(const Quantization&, int64_t) { return false; }

struct Sweep {};  // panel_sweep_avx512.h
inline Sweep plan_sweep(const Quantization&) { return {}; }
inline bool sweep(const Quantization&, const Sweep&, int64_t) { return false; }

}  // namespace fp4::avx2
