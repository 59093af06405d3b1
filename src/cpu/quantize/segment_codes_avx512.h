// Codes of adjacent elements for any format, rounding and number of random bits.
#pragma once

#include <cstring>

#include "src/cpu/quantize/code_axis_avx512.h"
#include "src/cpu/quantize/run_codes_avx512.h"
#include "src/cpu/quantize/run_philox_avx512.h"
#include "src/cpu/quantize/segment_payloads_avx512.h"
#include "src/cpu/quantize/store_body.h"
#include "src/cpu/simd/neighbours_avx512.h"

namespace fp4::avx512 {

// Draws as they lie in memory, little end first, and room for what a batch of 32 Philox blocks has beyond them.
struct SegmentDraws {
  alignas(64) uint8_t bytes[longest_segment * 4 + 512];
};

// Draws of n elements from `position` on, where a Philox block starts.
FP4_TARGET __attribute__((noinline)) inline void fill_segment_draws(const RunKeys& k, int n_bits, int64_t position,
                                                                    int n, SegmentDraws& out) {
  const int blocks = (n * n_bits + 127) / 128;
  const I first = lanes_in_memory() + all(static_cast<uint32_t>(position * n_bits / 128));
  for (int i = 0; i < blocks; i += 32) {
    const RunWords w = run_words(k, first + all(i), first + all(i + 16));
    store_blocks(w.c[0], w.c[1], out.bytes + 16 * i);
    store_blocks(w.c[2], w.c[3], out.bytes + 16 * i + 256);
  }
}

// A segment on its way: elements or payloads, what they are multiplied by, their draws, and their codes in 32 bits
// each, signs included. A block has `1 << block_log2` elements, at least 8; there is a factor beyond the last block's.
struct SegmentInput {
  const float* x;
  const float* factor;
  int block_log2;
  int vectors;
  const uint8_t* draws;
  uint32_t (*codes)[panel_rows];
};

// The factors of a vector of elements, which are one block's or those of two blocks of 8.
class VectorFactors {
 public:
  FP4_SIMD explicit VectorFactors(const SegmentInput& in)
      : first(in.factor), log2(in.block_log2), pick(in.block_log2 == 3 ? shift_right<3>(lane_numbers()) : all(0)) {}
  FP4_SIMD F operator()(int v) const {
    double both;
    std::memcpy(&both, first + (v * panel_rows >> log2), sizeof both);
    return {_mm512_permutexvar_ps(pick.v, _mm512_castpd_ps(_mm512_set1_pd(both)))};
  }

 private:
  const float* first;
  int log2;
  I pick;
};

// Magnitude codes with the signs of their elements.
struct SignedCodes {
  int shift;  // of a float's sign
  I sign;
  bool drops;  // that of zero

  FP4_SIMD explicit SignedCodes(const Quantizer& q)
      : shift(32 - q.element.code_bits()),
        sign(all(q.element.sign_code())),
        drops(q.negative_zero == NegativeZero::drop) {}
  FP4_SIMD I operator()(I code, F element) const {
    const I own = shift_right(bits(element), shift) & sign;
    return code | (drops ? select(code > all(0), own, all(0)) : own);
  }
};

template <Rounding mode, int n_bits>
FP4_TARGET void segment_codes(const Quantization& z, const SegmentInput& in) {
  const SignedCodes with_sign(z.plan->q);
  const CodeAxis c = code_axis_of(z.element, extra_bits(mode, n_bits));
  const bool has_axis = has_code_axis(z.element, mode, n_bits);
  const VectorFactors factor(in);
  for (int v = 0; v < in.vectors; ++v) {
    const F payload = load(in.x + v * panel_rows) * factor(v);
    I draw = all(0);
    if constexpr (is_stochastic(mode)) draw = neighbours<n_bits>(in.draws + v * 2 * n_bits);
    const I code =
        has_axis ? axis_code<mode>(c, payload, draw) : encode_lanes<mode>(z.element, payload, n_bits, draw).code;
    store(in.codes[v], with_sign(code, payload));
  }
}

// Whether payloads are products with their block's factor, of fp32 or exact.
inline bool has_product_payloads(const QuantPlan& p) {
  if (p.payload_path == PayloadPath::none) return true;
  if (p.payload_path == PayloadPath::power) return has_plain_powers(p);
  return p.payload_path == PayloadPath::multiply && p.q.prescale == 1.0f;
}

// Exact payloads by estimates: fp32 products with 20 or so more bits than codes have. The factor and the product round
// to 24 bits, so a sum is within one of its last place; where two of them could not change the code, it is the exact
// payload's. Ties are always in doubt. Of draws of 32 bits the upper ones decide.
inline bool has_estimates(const QuantPlan& p, const FormatLanes& f) {
  const bool exact = p.payload_path == PayloadPath::exact || p.payload_path == PayloadPath::encode_exact;
  const bool long_draws = is_stochastic(p.q.rounding) && p.q.random_bits == 32;
  const int draws = is_stochastic(p.q.rounding) && !long_draws ? p.q.random_bits : 0;
  return (exact || (long_draws && has_product_payloads(p) && p.q.has_scale)) && f.has_zero && !f.is_bf16 &&
         !f.is_fp32 && f.mantissa_bits + draws <= 19;
}

constexpr bool adds_half(Rounding mode) {
  return mode == Rounding::nearest_even || mode == Rounding::nearest_away || mode == Rounding::nearest_toward_zero ||
         mode == Rounding::stochastic || mode == Rounding::stochastic_midpoint;
}

template <Rounding mode, int n_bits>
FP4_TARGET bool estimated_codes(const Quantization& z, const SegmentInput& in) {
  const SignedCodes with_sign(z.plan->q);
  const int extra = 21 - z.element.mantissa_bits;
  const CodeAxis c = code_axis_of(z.element, extra);
  const I last_bits = all((1 << extra) - 4);
  constexpr bool long_draws = n_bits == 32;
  // Of a code, or of a draw's last bit; of long draws that is below what counts.
  const int half = adds_half(mode) && !long_draws ? 1 << (extra - 1 - n_bits) : 0;
  const I to_start = c.to_unit - all(half + 2);
  const I beyond = c.largest + all(8);  // surely: an estimate is off by two
  const VectorFactors factor(in);
  I least = last_bits;
  for (int v = 0; v < in.vectors; ++v) {
    const F element = load(in.x + v * panel_rows);
    const I u = bits(element * factor(v)) & all(0x7FFFFFFF);
    const I a = smaller(u, c.largest);
    const I binade = larger(a & all(0x7F800000), c.least);
    I steps = bits(as_float(a) + as_float(binade + c.to_unit)) - (binade + to_start);  // and two more
    if constexpr (is_stochastic(mode)) {
      const I draw = neighbours<n_bits>(in.draws + v * 2 * n_bits);
      steps = steps + (long_draws ? shift_right(draw, n_bits - extra) : shift_left(draw, extra - n_bits));
    }
    I distance = steps & last_bits;  // 0: a whole number of steps may lie between the estimate and the payload
    if (!adds_half(mode) && !long_draws) distance = select((element == all(0.0f)) | (u > beyond), last_bits, distance);
    least = smaller_unsigned(least, distance);
    if (mode == Rounding::away_from_zero) steps = steps + last_bits;
    if (mode == Rounding::toward_positive) steps = add_where(bits(element) >= all(0), steps, last_bits);
    if (mode == Rounding::toward_negative) steps = add_where(bits(element) < all(0), steps, last_bits);
    const I code = shift_right(steps, extra) + shift_right(binade - c.least, c.to_code);
    store(in.codes[v], with_sign(code, element));
  }
  return !any(least == all(0));
}

struct CodeLoops {
  void (*codes)(const Quantization&, const SegmentInput&);
  bool (*estimates)(const Quantization&, const SegmentInput&);
};

template <Rounding mode, int n_bits = 0>
inline constexpr CodeLoops loops_of = {segment_codes<mode, n_bits>, estimated_codes<mode, n_bits>};

template <Rounding mode>
CodeLoops drawn_loops(int n_bits) {
  switch (n_bits) {
    case 4: return loops_of<mode, 4>;
    case 8: return loops_of<mode, 8>;
    case 16: return loops_of<mode, 16>;
    default: return loops_of<mode, 32>;
  }
}

inline CodeLoops code_loops(Rounding mode, int n_bits) {
  switch (mode) {
    case Rounding::nearest_even: return loops_of<Rounding::nearest_even>;
    case Rounding::nearest_away: return loops_of<Rounding::nearest_away>;
    case Rounding::nearest_toward_zero: return loops_of<Rounding::nearest_toward_zero>;
    case Rounding::toward_zero: return loops_of<Rounding::toward_zero>;
    case Rounding::away_from_zero: return loops_of<Rounding::away_from_zero>;
    case Rounding::toward_positive: return loops_of<Rounding::toward_positive>;
    case Rounding::toward_negative: return loops_of<Rounding::toward_negative>;
    case Rounding::stochastic: return drawn_loops<Rounding::stochastic>(n_bits);
    case Rounding::stochastic_midpoint: return drawn_loops<Rounding::stochastic_midpoint>(n_bits);
    case Rounding::stochastic_truncated: return drawn_loops<Rounding::stochastic_truncated>(n_bits);
  }
  return {};
}

// Four vectors of codes, the next one `step` vectors on, lane by lane.
FP4_SIMD I merged_codes(const uint32_t (*codes)[panel_rows], int step) {
  const I four[4] = {load(codes[0]), load(codes[step]), load(codes[2 * step]), load(codes[3 * step])};
  return merged_bytes(four);
}

template <int width>
FP4_SIMD void store_segment(const uint32_t (*codes)[panel_rows], int vectors, uint8_t* out) {
  int v = 0;
  for (; width == 4 && v + 8 <= vectors; v += 8) {
    store_codes(merged_codes(codes + v, 2), merged_codes(codes + v + 1, 2), out + v * 8);
  }
  for (; width == 8 && v + 4 <= vectors; v += 4) {
    const I four = merged_codes(codes + v, 1);
    _mm512_storeu_si512(out + v * panel_rows, _mm512_permutexvar_epi8(byte_order(), four.v));
  }
  for (; v < vectors; ++v) store_neighbours<width>(out + v * 2 * width, load(codes[v]));
}

// Of blocks that no segment leaves.
inline constexpr int whole_log2 = 16;

// What all segments of an operand share.
struct SegmentPlan {
  RunKeys keys;  // stochastic
  CodeLoops loops = {};
  bool products = false;  // has_product_payloads
  bool estimates = false;
  int block_log2 = whole_log2;  // of the elements that have a scale of their own
  int code_width = 4;           // bits
};

FP4_TARGET inline SegmentPlan segment_plan(const Quantization& z) {
  SegmentPlan s;
  if (z.draws.wanted) s.keys = run_keys(z.plan->place);
  const int block = z.plan->spec.block.size;
  if (z.plan->q.has_scale && block > 0) s.block_log2 = __builtin_ctz(static_cast<unsigned>(block));
  s.loops = code_loops(z.plan->q.rounding, z.plan->q.random_bits);
  s.products = has_product_payloads(*z.plan);
  s.estimates = has_estimates(*z.plan, z.element);
  s.code_width = code_width(*z.stored);
  return s;
}

// Codes of n adjacent finite elements under the scales of their blocks; `position` is the first one's in the operand.
// false: some payload is in doubt, what is written is not to be used.
FP4_TARGET inline bool encode_segment(const Quantization& z, const SegmentPlan& s, const SegmentFactors& f,
                                      const float* x, int n, int64_t position, uint8_t* out) {
  const QuantPlan& p = *z.plan;
  const int vectors = n / panel_rows;
  SegmentDraws draws;
  if (z.draws.wanted) fill_segment_draws(s.keys, p.q.random_bits, position, n, draws);
  alignas(64) uint32_t codes[longest_segment / panel_rows][panel_rows];
  alignas(64) float payloads[longest_segment / panel_rows][panel_rows];
  SegmentInput in = {x, f.first, s.block_log2, vectors, draws.bytes, codes};
  const bool estimated = s.estimates && s.loops.estimates(z, in);
  if (!estimated && !s.products) {
    if (p.has_wide_draws) return false;
    const bool found = s.block_log2 < 4 ? segment_payloads<true>(p, f, s.block_log2, x, vectors, payloads)
                                        : segment_payloads<false>(p, f, s.block_log2, x, vectors, payloads);
    if (!found) return false;
    static constexpr float one[2] = {1.0f, 1.0f};
    in.x = payloads[0];
    in.factor = one;
    in.block_log2 = whole_log2;
  }
  if (!estimated) s.loops.codes(z, in);
  switch (s.code_width) {
    case 4: store_segment<4>(codes, vectors, out); break;
    case 8: store_segment<8>(codes, vectors, out); break;
    case 16: store_segment<16>(codes, vectors, out); break;
    default: store_segment<32>(codes, vectors, out); break;
  }
  return true;
}

}  // namespace fp4::avx512
