// Bytes, tables, random words and transposes.
#pragma once

#include "src/cpu/simd/avx512_doubles.h"
#include "src/cpu/simd/philox.h"

namespace fp4::avx512 {

// Four vectors of small integers v0..v3 to bytes: lane j becomes v0[j] v1[j] v2[j] v3[j] (saturated to int8).
FP4_SIMD B packed_lanes(I v0, I v1, I v2, I v3) {
  const __m512i words01 = _mm512_packs_epi32(v0.v, v1.v);
  const __m512i words23 = _mm512_packs_epi32(v2.v, v3.v);
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return {_mm512_shuffle_epi8(_mm512_packs_epi16(words01, words23), order)};
}
struct ByteTable {  // 128 entries, index = low seven bits
  __m512i lo, hi;
};
FP4_SIMD ByteTable load_table(const int8_t* p) { return {_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64)}; }
FP4_SIMD B look_up(ByteTable t, B index) { return {_mm512_permutex2var_epi8(t.lo, index.v, t.hi)}; }
struct NibbleTable {  // 16 entries, four times
  __m512i v;
};
FP4_SIMD NibbleTable load_nibble_table(const int8_t* p) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
// The entries of four nibbles of every lane: its low or its high half.
template <bool high>
FP4_SIMD B nibble_bytes(NibbleTable t, I a) {
  const __m512i from = _mm512_set1_epi64(high ? 0x3C3834301C181410 : 0x2C2824200C080400);
  return {_mm512_permutexvar_epi8(_mm512_multishift_epi64_epi8(from, a.v), t.v)};
}
// The entries of bytes' magnitudes below 16.
FP4_SIMD B magnitude_entries(NibbleTable t, B a) { return {_mm512_shuffle_epi8(t.v, _mm512_abs_epi8(a.v))}; }
// The low words of a and the high words of b.
FP4_SIMD I joined_words(I a, I b) { return {_mm512_mask_blend_epi16(0xAAAAAAAA, a.v, b.v)}; }
FP4_SIMD void store_words(int16_t* p, I a) { _mm512_storeu_si512(p, a.v); }
FP4_SIMD I lanes_of(B a) { return {a.v}; }
FP4_SIMD B bytes_of(I a) { return {a.v}; }
// Two times four nibbles of every lane, a byte each, to one dword.
FP4_SIMD I joined_nibbles(B low, B high) {
  const __m512i weights = _mm512_set1_epi16(0x1001);
  const __m512i pairs =
      _mm512_packus_epi16(_mm512_maddubs_epi16(low.v, weights), _mm512_maddubs_epi16(high.v, weights));
  const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  return {_mm512_shuffle_epi8(pairs, order)};
}
FP4_SIMD B add_bytes(B a, B b) { return {_mm512_add_epi8(a.v, b.v)}; }
FP4_SIMD B all_bytes(int8_t x) { return {_mm512_set1_epi8(x)}; }
FP4_SIMD B within(B a, int8_t low, int8_t high) {
  return {_mm512_min_epi8(_mm512_max_epi8(a.v, _mm512_set1_epi8(low)), _mm512_set1_epi8(high))};
}
FP4_SIMD B load_bytes(const int8_t* p) { return {_mm512_loadu_si512(p)}; }
FP4_SIMD void store(int8_t* p, B a) { _mm512_storeu_si512(p, a.v); }
// Lane sums of squares of bytes above -128, added to sum.
FP4_SIMD I add_squares(I sum, B a) {
  const __m512i magnitude = _mm512_abs_epi8(a.v);
  return {_mm512_dpbusd_epi32(sum.v, magnitude, magnitude)};
}
// Lane sums of factor * byte, added to sum.
FP4_SIMD I add_dots(I sum, uint8_t factor, B a) {
  return {_mm512_dpbusd_epi32(sum.v, _mm512_set1_epi8(static_cast<int8_t>(factor)), a.v)};
}

// Philox4x32-10 of 16 counters (low, high, stream, step).
FP4_SIMD Words philox(I low, I high, uint32_t stream, uint32_t step, uint64_t seed) {
  vq word[4];
  philox_words(reinterpret_cast<vq>(low.v), reinterpret_cast<vq>(high.v), stream, step, seed, word);
  Words w;
  for (int i = 0; i < 4; ++i) w.word[i].v = reinterpret_cast<__m512i>(word[i]);
  return w;
}

// 16 rows of 4 floats (row stride in floats) to 4 vectors, lane = row.
FP4_SIMD void transpose_16x4(const float* x, int64_t stride, F out[4]) {
  __m512 rows[4];
  for (int r = 0; r < 4; ++r) {
    const float* p = x + r * stride;
    __m512 z = _mm512_castps128_ps512(_mm_loadu_ps(p));
    z = _mm512_insertf32x4(z, _mm_loadu_ps(p + 4 * stride), 1);
    z = _mm512_insertf32x4(z, _mm_loadu_ps(p + 8 * stride), 2);
    rows[r] = _mm512_insertf32x4(z, _mm_loadu_ps(p + 12 * stride), 3);
  }
  const __m512 a = _mm512_unpacklo_ps(rows[0], rows[1]);
  const __m512 b = _mm512_unpackhi_ps(rows[0], rows[1]);
  const __m512 c = _mm512_unpacklo_ps(rows[2], rows[3]);
  const __m512 d = _mm512_unpackhi_ps(rows[2], rows[3]);
  out[0].v = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
  out[1].v = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(c)));
  out[2].v = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
  out[3].v = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(b), _mm512_castps_pd(d)));
}

// Four vectors of sixteen dwords, [4][16], to 16 bytes of each row.
FP4_SIMD void store_transposed_dwords(const void* x, uint8_t* out, int64_t stride) {
  const auto* p = static_cast<const uint32_t*>(x);
  const __m512i a = _mm512_unpacklo_epi32(_mm512_load_si512(p), _mm512_load_si512(p + 16));
  const __m512i b = _mm512_unpackhi_epi32(_mm512_load_si512(p), _mm512_load_si512(p + 16));
  const __m512i c = _mm512_unpacklo_epi32(_mm512_load_si512(p + 32), _mm512_load_si512(p + 48));
  const __m512i d = _mm512_unpackhi_epi32(_mm512_load_si512(p + 32), _mm512_load_si512(p + 48));
  const __m512i q[4] = {_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c), _mm512_unpacklo_epi64(b, d),
                        _mm512_unpackhi_epi64(b, d)};
  for (int r = 0; r < 4; ++r) {  // q[r]: rows r, r + 4, r + 8, r + 12
    uint8_t* row = out + r * stride;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row), _mm512_castsi512_si128(q[r]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 4 * stride), _mm512_extracti32x4_epi32(q[r], 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 8 * stride), _mm512_extracti32x4_epi32(q[r], 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 12 * stride), _mm512_extracti32x4_epi32(q[r], 3));
  }
}
// Columns [k][16 rows] back to rows of `valid` floats.
FP4_SIMD void store_transposed(const float (*x)[16], int rows, int valid, float* out, int64_t stride) {
  int k = 0;
  for (; k + 4 <= valid && rows == 16; k += 4) {
    store_transposed_dwords(x[k], reinterpret_cast<uint8_t*>(out + k), 4 * stride);
  }
  for (int r = 0; r < rows; ++r) {
    for (int i = k; i < valid; ++i) out[r * stride + i] = x[i][r];
  }
}

// Lane j becomes other[j] + v[j], or other[j] - v[j] in the lanes of `minus`.
FP4_SIMD F butterfly(F v, __m512 other, __mmask16 minus) {
  const __m512 one = _mm512_mask_blend_ps(minus, _mm512_set1_ps(1.0f), _mm512_set1_ps(-1.0f));
  return {_mm512_fmadd_ps(v.v, one, other)};
}

// The Hadamard transform of sixteen neighbours: a butterfly is a shuffle and a fused product with 1 or -1.
FP4_SIMD F transformed_lanes(F v) {
  v = butterfly(v, _mm512_permute_ps(v.v, 0xB1), 0xAAAA);
  v = butterfly(v, _mm512_permute_ps(v.v, 0x4E), 0xCCCC);
  v = butterfly(v, _mm512_shuffle_f32x4(v.v, v.v, 0xB1), 0xF0F0);
  return butterfly(v, _mm512_shuffle_f32x4(v.v, v.v, 0x4E), 0xFF00);
}

// The codes of sixteen neighbours, `width` bits each; of two in a byte the lower half comes first.
template <int width>
FP4_SIMD I neighbours(const uint8_t* p) {
  if constexpr (width == 4) {
    const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_and_si512(_mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28)), _mm512_set1_epi32(0xF))};
  } else if constexpr (width == 8) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  } else if constexpr (width == 16) {
    return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  } else {
    return {_mm512_loadu_si512(p)};
  }
}

}  // namespace fp4::avx512
