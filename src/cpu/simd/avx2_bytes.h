// Bytes, tables, random words and transposes.
#pragma once

#include "src/cpu/simd/avx2_doubles.h"

namespace fp4::avx2 {

FP4_SIMD B packed_lanes(I v0, I v1, I v2, I v3) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  return {
      _mm256_shuffle_epi8(_mm256_packs_epi16(_mm256_packs_epi32(v0.a, v1.a), _mm256_packs_epi32(v2.a, v3.a)), order),
      _mm256_shuffle_epi8(_mm256_packs_epi16(_mm256_packs_epi32(v0.b, v1.b), _mm256_packs_epi32(v2.b, v3.b)), order)};
}
FP4_SIMD B packed_lanes_unsigned(I v0, I v1, I v2, I v3) {
  const I byte = all(0xFF);
  const I low = (v0 & byte) | shift_left<8>(v1 & byte);
  const I high = (v2 & byte) | shift_left<8>(v3 & byte);
  const I x = low | shift_left<16>(high);
  return {x.a, x.b};
}
// 128 entries by an index mod 128, in eight rows of 16. Most tables are odd about their entry of 0: then the magnitude
// of the index finds its entry in the first four rows.
struct ByteTable {
  __m128i row[8];
  bool is_odd;
  int8_t middle;
};
FP4_SIMD ByteTable load_table(const int8_t* p) {
  ByteTable t;
  for (int i = 0; i < 8; ++i) t.row[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
  t.middle = p[0];
  t.is_odd = true;
  for (int i = 1; i < 64; ++i) t.is_odd = t.is_odd && p[i] - p[0] == p[0] - p[128 - i];
  return t;
}
// One of `count` rows by the bits of the index above its lowest four; the highest of those is at the top of `chosen`.
template <int count>
FP4_SIMD __m256i entry_of(const __m128i* row, __m256i index, __m256i chosen) {
  if constexpr (count == 1) {
    const __m256i nibble = _mm256_and_si256(index, _mm256_set1_epi8(0x0F));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(row[0]), nibble);
  } else {
    const __m256i below = _mm256_add_epi8(chosen, chosen);
    return _mm256_blendv_epi8(entry_of<count / 2>(row, index, below),
                              entry_of<count / 2>(row + count / 2, index, below), chosen);
  }
}
FP4_SIMD __m256i look_up_half(const ByteTable& t, __m256i index) {
  if (!t.is_odd) return entry_of<8>(t.row, index, _mm256_add_epi8(index, index));
  const __m256i twice = _mm256_add_epi8(index, index);  // a signed byte
  const __m256i size = _mm256_abs_epi8(twice);
  const __m256i middle = _mm256_set1_epi8(t.middle);
  const __m256i entry =
      _mm256_sub_epi8(entry_of<4>(t.row, _mm256_srli_epi16(size, 1), _mm256_add_epi8(size, size)), middle);
  return _mm256_add_epi8(_mm256_sign_epi8(entry, twice), middle);
}
FP4_SIMD B look_up(const ByteTable& t, B index) { return {look_up_half(t, index.a), look_up_half(t, index.b)}; }
struct NibbleTable {
  __m256i v;
};
FP4_SIMD NibbleTable load_nibble_table(const int8_t* p) {
  return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
FP4_SIMD __m256i nibbles_of(__m256i table, __m256i order, __m256i x) {
  const __m256i pairs = _mm256_shuffle_epi8(x, order);  // every byte twice
  const __m256i index = _mm256_or_si256(_mm256_and_si256(pairs, _mm256_set1_epi16(0x000F)),
                                        _mm256_and_si256(_mm256_srli_epi16(pairs, 4), _mm256_set1_epi16(0x0F00)));
  return _mm256_shuffle_epi8(table, index);
}
// The entries of four nibbles of every lane: its low or its high half.
template <bool high>
FP4_SIMD B nibble_bytes(NibbleTable t, I x) {
  constexpr char at = high ? 2 : 0;
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(at, at, at + 1, at + 1, at + 4, at + 4, at + 5, at + 5, at + 8, at + 8,
                                                at + 9, at + 9, at + 12, at + 12, at + 13, at + 13));
  return {nibbles_of(t.v, order, x.a), nibbles_of(t.v, order, x.b)};
}
// The entries of bytes' magnitudes below 16.
FP4_SIMD B magnitude_entries(NibbleTable t, B x) {
  return {_mm256_shuffle_epi8(t.v, _mm256_abs_epi8(x.a)), _mm256_shuffle_epi8(t.v, _mm256_abs_epi8(x.b))};
}
// The low words of x and the high words of y.
FP4_SIMD I joined_words(I x, I y) { return {_mm256_blend_epi16(x.a, y.a, 0xAA), _mm256_blend_epi16(x.b, y.b, 0xAA)}; }
FP4_SIMD void store_words(int16_t* p, I x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 16), x.b);
}
FP4_SIMD I lanes_of(B x) { return {x.a, x.b}; }
FP4_SIMD B bytes_of(I x) { return {x.a, x.b}; }
// Two times four nibbles of every lane, a byte each, to one dword.
FP4_SIMD __m256i joined_half(__m256i low, __m256i high) {
  const __m256i weights = _mm256_set1_epi16(0x1001);
  const __m256i pairs = _mm256_packus_epi16(_mm256_maddubs_epi16(low, weights), _mm256_maddubs_epi16(high, weights));
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  return _mm256_shuffle_epi8(pairs, order);
}
FP4_SIMD I joined_nibbles(B low, B high) { return {joined_half(low.a, high.a), joined_half(low.b, high.b)}; }
FP4_SIMD B add_bytes(B x, B y) { return {_mm256_add_epi8(x.a, y.a), _mm256_add_epi8(x.b, y.b)}; }
FP4_SIMD B all_bytes(int8_t x) { return {_mm256_set1_epi8(x), _mm256_set1_epi8(x)}; }
FP4_SIMD B within(B x, int8_t low, int8_t high) {
  const __m256i lo = _mm256_set1_epi8(low);
  const __m256i hi = _mm256_set1_epi8(high);
  return {_mm256_min_epi8(_mm256_max_epi8(x.a, lo), hi), _mm256_min_epi8(_mm256_max_epi8(x.b, lo), hi)};
}
FP4_SIMD B load_bytes(const int8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
FP4_SIMD void store(int8_t* p, B x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), x.b);
}
FP4_SIMD __m256i squares_of(__m256i x) {
  const __m256i magnitude = _mm256_abs_epi8(x);
  return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, magnitude), _mm256_set1_epi16(1));
}
FP4_SIMD I add_squares(I sum, B x) {
  return {_mm256_add_epi32(sum.a, squares_of(x.a)), _mm256_add_epi32(sum.b, squares_of(x.b))};
}
// sum + the products of four bytes of `row` (unsigned) and those of every lane (signed); two of them fit 16 bits.
FP4_SIMD I add_products(I sum, int32_t row, B x) {
  const __m256i f = _mm256_set1_epi32(row);
  const __m256i one = _mm256_set1_epi16(1);
  return {_mm256_add_epi32(sum.a, _mm256_madd_epi16(_mm256_maddubs_epi16(f, x.a), one)),
          _mm256_add_epi32(sum.b, _mm256_madd_epi16(_mm256_maddubs_epi16(f, x.b), one))};
}
FP4_SIMD I add_dots(I sum, uint8_t factor, B x) {
  return add_products(sum, static_cast<int32_t>(0x01010101u * factor), x);
}

struct Words {
  I word[4];
};
FP4_SIMD Words philox(I block, uint32_t stream, uint32_t step, uint64_t seed) {
  __m256i c[4][4];  // even and odd lanes of both halves
  c[0][0] = block.a;
  c[1][0] = _mm256_srli_epi64(block.a, 32);
  c[2][0] = block.b;
  c[3][0] = _mm256_srli_epi64(block.b, 32);
  for (int part = 0; part < 4; ++part) {
    c[part][1] = _mm256_setzero_si256();
    c[part][2] = _mm256_set1_epi64x(stream);
    c[part][3] = _mm256_set1_epi64x(step);
  }
  const __m256i m0 = _mm256_set1_epi64x(0xD2511F53u);
  const __m256i m1 = _mm256_set1_epi64x(0xCD9E8D57u);
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i k0 = _mm256_set1_epi64x(key0);
    const __m256i k1 = _mm256_set1_epi64x(key1);
    for (int part = 0; part < 4; ++part) {
      const __m256i p0 = _mm256_mul_epu32(m0, c[part][0]);
      const __m256i p1 = _mm256_mul_epu32(m1, c[part][2]);
      c[part][0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c[part][1]), k0);
      c[part][2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c[part][3]), k1);
      c[part][1] = p1;
      c[part][3] = p0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  Words w;
  for (int i = 0; i < 4; ++i) {
    w.word[i].a = _mm256_blend_epi32(c[0][i], _mm256_slli_epi64(c[1][i], 32), 0xAA);
    w.word[i].b = _mm256_blend_epi32(c[2][i], _mm256_slli_epi64(c[3][i], 32), 0xAA);
  }
  return w;
}

// 8 rows of 4 floats to 4 vectors of 8.
FP4_SIMD void transpose_8x4(const float* x, int64_t stride, __m256 out[4]) {
  __m256 rows[4];
  for (int r = 0; r < 4; ++r)
    rows[r] = _mm256_set_m128(_mm_loadu_ps(x + (r + 4) * stride), _mm_loadu_ps(x + r * stride));
  const __m256 a = _mm256_unpacklo_ps(rows[0], rows[1]);
  const __m256 b = _mm256_unpackhi_ps(rows[0], rows[1]);
  const __m256 c = _mm256_unpacklo_ps(rows[2], rows[3]);
  const __m256 d = _mm256_unpackhi_ps(rows[2], rows[3]);
  out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(c)));
  out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(c)));
  out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(b), _mm256_castps_pd(d)));
  out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(b), _mm256_castps_pd(d)));
}
FP4_SIMD void transpose_16x4(const float* x, int64_t stride, F out[4]) {
  __m256 low[4];
  __m256 high[4];
  transpose_8x4(x, stride, low);
  transpose_8x4(x + 8 * stride, stride, high);
  for (int i = 0; i < 4; ++i) out[i] = {low[i], high[i]};
}

// Columns [k][16 rows] back to rows of `valid` floats.
FP4_SIMD void store_transposed(const float (*x)[16], int rows, int valid, float* out, int64_t stride) {
  const int full_rows = rows / 8 * 8;
  const int full = valid / 8 * 8;
  for (int r0 = 0; r0 < full_rows; r0 += 8) {
    for (int i = 0; i < full; i += 8) {
      __m256 row[8];
      transpose_8x4(x[i] + r0, 16, row);
      transpose_8x4(x[i] + r0 + 4, 16, row + 4);
      for (int r = 0; r < 8; ++r) _mm256_storeu_ps(out + (r0 + r) * stride + i, row[r]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int i = r < full_rows ? full : 0; i < valid; ++i) out[r * stride + i] = x[i][r];
  }
}

// Four dwords of sixteen rows, [4][16], to 16 bytes of each row.
FP4_SIMD void store_transposed_dwords(const uint32_t (*x)[16], uint8_t* out, int64_t stride) {
  for (int r0 = 0; r0 < 16; r0 += 8) {
    const __m256i x0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[0] + r0));
    const __m256i x1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[1] + r0));
    const __m256i x2 = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[2] + r0));
    const __m256i x3 = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[3] + r0));
    const __m256i a = _mm256_unpacklo_epi32(x0, x1);
    const __m256i b = _mm256_unpackhi_epi32(x0, x1);
    const __m256i c = _mm256_unpacklo_epi32(x2, x3);
    const __m256i d = _mm256_unpackhi_epi32(x2, x3);
    const __m256i q[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
                          _mm256_unpackhi_epi64(b, d)};
    for (int r = 0; r < 4; ++r) {  // q[r]: rows r and r + 4
      uint8_t* row = out + (r0 + r) * stride;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(row), _mm256_castsi256_si128(q[r]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 4 * stride), _mm256_extracti128_si256(q[r], 1));
    }
  }
}

// The Hadamard transform of eight neighbours. Lane j becomes other[j] + x[j], or other[j] - x[j] where its bit is set.
FP4_SIMD __m256 butterfly(__m256 x, __m256 other, __m256 one) { return _mm256_fmadd_ps(x, one, other); }
FP4_SIMD __m256 transformed_lanes(__m256 x) {
  x = butterfly(x, _mm256_permute_ps(x, 0xB1), _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1));
  x = butterfly(x, _mm256_permute_ps(x, 0x4E), _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1));
  return butterfly(x, _mm256_permute2f128_ps(x, x, 0x01), _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1));
}
// Of sixteen.
FP4_SIMD F transformed_lanes(F x) {
  const __m256 a = transformed_lanes(x.a);
  const __m256 b = transformed_lanes(x.b);
  return {_mm256_add_ps(a, b), _mm256_sub_ps(a, b)};
}

}  // namespace fp4::avx2
