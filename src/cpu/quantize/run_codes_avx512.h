// Maxima of sixteen blocks that lie along rows (lane = block), what their elements are multiplied by, and codes of
// elements as they lie in a row: FP4 128 at a time to 64 bytes, or a byte each.
#pragma once

#include "src/cpu/quantize/run_hadamard_body.h"
#include "src/cpu/quantize/run_kinds_body.h"
#include "src/cpu/quantize/run_philox_avx512.h"
#include "src/cpu/simd/lanes.h"

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

// Bits of the largest magnitudes of blocks first, first + d, first + 2d ... in lanes that repeat them. A block has
// `width` vectors, the next one is `stride` elements on.
template <int width, int d = 1>
FP4_SIMD I block_maxima(const float* x, int64_t stride, int first = 0) {
  if constexpr (d == panel_rows) {
    const I magnitude = all(0x7FFFFFFF);
    I m = bits(load(x + first * stride)) & magnitude;
    for (int i = 1; i < width; ++i) m = larger_unsigned(m, bits(load(x + first * stride + i * panel_rows)) & magnitude);
    return m;
  } else {
    return folded_maxima<d>(block_maxima<width, 2 * d>(x, stride, first),
                            block_maxima<width, 2 * d>(x, stride, first + d));
  }
}

// How codes are formed: by table, by draws on the code axis of e2m1, or a byte each .
enum class RunCodes : uint8_t { table, draws, bytes };

struct CodePlan {
  RunKind kind = RunKind::none;
  RunCodes codes = RunCodes::table;
  float end = 6.0f;    // elements of the largest payload begin at this times the scale
  float steps = 4.0f;  // a payload's factor is given times this
};

struct RunPlan : CodePlan {
  bool drops = false;  // the sign of zero
  RunKeys keys;        // stochastic
  RunHadamard hadamard;
  FormatLanes format;  // of codes of a byte
  int code_bits = 8;
  ByteTable table;  // of codes, by floor + ceil of steps * payload, mod 128
};

// b where the mask has bits, else a.
FP4_SIMD I bits_where(I a, I b, uint32_t mask) {
  return {_mm512_ternarylogic_epi32(a.v, b.v, _mm512_set1_epi32(static_cast<int>(mask)), 0xD8)};
}

// What the elements of sixteen blocks are multiplied by.
struct RunFactors {
  alignas(64) float low[panel_rows];
  alignas(64) float high[panel_rows];  // quotient: above the exact factor, as `low` is below it
  alignas(64) float third[panel_rows];
  alignas(64) float end[panel_rows];  // power with draws: elements from here on have the largest payload
};

// false: some block's factor, or a payload, is out of reach.
FP4_SIMD bool find_factors(const QuantPlan& p, const CodePlan& r, I amax, const LaneScales& s, const LaneFactor& t,
                           RunFactors& out) {
  F factor;
  if (!block_factors(p, r.kind, r.steps, amax, s, t, factor)) return false;
  if (r.codes == RunCodes::bytes) {
    store(out.low, factor);
    return true;
  }
  if (r.codes == RunCodes::draws) {
    const bool exact = r.kind != RunKind::product;  // 256 times a payload's slope in each part of the code axis
    store(out.low, factor * all(exact ? 512.0f : 1.0f));
    store(out.high, factor * all(256.0f));
    store(out.third, factor * all(128.0f));
    if (r.kind == RunKind::power) store(out.end, s.value * all(r.end));
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

// floor + ceil of a payload's steps, plus 128, in the low bits: the second product starts from the first one's floor.
inline constexpr float index_magic = to_integer + 128.0f;
FP4_SIMD I step_index(F x, F low, F high) { return bits(fma_up(x, high, fma_down(x, low, all(index_magic)))); }

// The index of an element in the table of codes; even ones of enclosed payloads are in doubt.
template <RunKind kind>
FP4_SIMD I code_index(F x, F low, F high, float steps) {
  if (kind == RunKind::quotient) return step_index(x, low, high);
  if (kind == RunKind::power) return step_index(x, low, low);
  return step_index(x * low, all(steps), all(steps));
}

// Bytes of four vectors with clean low words, lane by lane.
FP4_SIMD I merged_bytes(const I (&v)[4]) {
  const __m512i up = _mm512_set1_epi32(256);
  const __m512i even = _mm512_dpwssd_epi32(v[0].v, v[1].v, up);
  const __m512i odd = _mm512_dpwssd_epi32(v[2].v, v[3].v, up);
  return {_mm512_mask_blend_epi16(0xAAAAAAAAu, even, _mm512_slli_epi32(odd, 16))};
}

// Every other of eight vectors is encoded together, so that the halves interleave when they are packed.
inline constexpr int quad_step = 2 * panel_rows;

FP4_SIMD I merged_signs(const float* x) {  // bit 3 of each byte
  return (shift_right<28>(bits(load(x))) & all(0x8)) | (shift_right<20>(bits(load(x + quad_step))) & all(0x800)) |
         (shift_right<12>(bits(load(x + 2 * quad_step))) & all(0x80000)) |
         (shift_right<4>(bits(load(x + 3 * quad_step))) & all(0x8000000));
}

// Codes by table of vectors vector, vector + 2, vector + 4 and vector + 6 of a run; the first one is at x. `sure`
// becomes false where a whole number of steps lies between the bounds of a payload.
template <RunKind kind, int width>
FP4_SIMD I table_codes(const RunPlan& r, const RunFactors& f, const float* x, int vector, bool& sure) {
  I index[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int block = (vector + 2 * i) / width;
    const F high = all(kind == RunKind::quotient ? f.high[block] : 0.0f);
    index[i] = code_index<kind>(load(x + i * quad_step), all(f.low[block]), high, r.steps);
  }
  const I merged = merged_bytes(index);
  const __m512i codes = _mm512_permutex2var_epi8(r.table.lo, merged.v, r.table.hi);
  const __mmask64 zero = _mm512_cmpeq_epi8_mask(merged.v, _mm512_set1_epi8(-128));
  if (kind == RunKind::quotient) {
    sure = sure && (_mm512_testn_epi8_mask(merged.v, _mm512_set1_epi8(1)) & ~zero) == 0;
  }
  if (__builtin_expect(zero == 0, 1)) return {codes};
  const __m512i signs = _mm512_maskz_mov_epi8(zero, merged_signs(x).v);
  return {_mm512_mask_or_epi32(codes, r.drops ? __mmask16{0} : __mmask16{0xFFFF}, codes, signs)};
}

// Lane j of four vectors, byte i of vector i, to the order of the elements.
FP4_SIMD __m512i byte_order() {
  const __m512i lane =
      _mm512_setr_epi32(0x0C080400, 0x1C181410, 0x2C282420, 0x3C383430, 0x0D090501, 0x1D191511, 0x2D292521, 0x3D393531,
                        0x0E0A0602, 0x1E1A1612, 0x2E2A2622, 0x3E3A3632, 0x0F0B0703, 0x1F1B1713, 0x2F2B2723, 0x3F3B3733);
  return lane;
}

// The codes of vectors 0, 2, 4, 6 and of 1, 3, 5, 7 to 64 bytes.
FP4_SIMD void store_codes(I even, I odd, uint8_t* out) {
  const __m512i weights = _mm512_set1_epi16(0x1001);
  const __m512i order = byte_order();
  const __m512i low = _mm512_maddubs_epi16(_mm512_permutexvar_epi8(order, even.v), weights);
  const __m512i high = _mm512_maddubs_epi16(_mm512_permutexvar_epi8(order, odd.v), weights);
  _mm512_storeu_si512(out, _mm512_packus_epi16(low, high));
}

// Codes of a byte each, of formats with a mantissa: adding the power of two whose last place is a payload's grid step
// rounds it to nearest even and counts its steps in one sum.
// 64 codes of four adjacent vectors; the first one is vector `vector` of a run.
template <int width>
FP4_SIMD void store_byte_codes(const RunPlan& r, const RunFactors& f, const float* x, int vector, uint8_t* out) {
  const FormatLanes& c = r.format;
  const int32_t least_binade = c.least_field << 23;
  const I sign_bit = all(1 << (r.code_bits - 1));
  const I to_unit = all(static_cast<uint32_t>(23 - c.mantissa_bits) << 23);
  const I to_step = all(23 - c.mantissa_bits);
  I code[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const I v = bits(load(x + i * panel_rows));
    const F u = smaller(as_float(v & all(0x7FFFFFFF)) * all(f.low[(vector + i) / width]), all(c.largest_value));
    const I binade = larger(bits(u) & all(0x7F800000), all(least_binade));
    const I counted = bits(u + as_float(binade + to_unit));
    // Steps, and the codes of the binades below; what the constants add to the low byte goes at the end.
    const I low = (counted - binade) + I{_mm512_srlv_epi32(binade.v, to_step.v)};
    const I sign = I{_mm512_srlv_epi32(v.v, all(32 - r.code_bits).v)} & sign_bit;
    code[i] = low + sign;
  }
  const I even = bits_where(code[0], shift_left<8>(code[1]), 0xFF00);
  const I odd = bits_where(shift_left<16>(code[2]), shift_left<24>(code[3]), 0xFF000000u);
  __m512i codes = _mm512_mask_blend_epi16(0xAAAAAAAAu, even.v, odd.v);
  const int32_t start = least_binade >> (23 - c.mantissa_bits);
  codes = _mm512_sub_epi8(codes, _mm512_set1_epi8(static_cast<char>(start)));
  if (r.drops) {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(1 << (r.code_bits - 1)));
    codes = _mm512_maskz_mov_epi8(_mm512_cmpneq_epi8_mask(codes, sign), codes);
  }
  _mm512_storeu_si512(out, _mm512_permutexvar_epi8(byte_order(), codes));
}

}  // namespace fp4::avx512
