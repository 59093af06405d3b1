// Bytes, tables, random words, transposes and codes as they lie in memory, in parts.
#pragma once

#include "src/cpu/simd/parts_doubles.h"
#include "src/cpu/simd/philox.h"

namespace fp4::FP4_ISA {

FP4_SIMD I lanes_of(B x) { FP4_EACH(I, signed_of(x.v[i])); }
FP4_SIMD B bytes_of(I x) { FP4_EACH(B, reinterpret_cast<vb>(x.v[i])); }
FP4_SIMD B load_bytes(const int8_t* p) { FP4_EACH(B, load_part<vb>(p + 4 * part_lanes * i)); }
FP4_SIMD void store(int8_t* p, B x) {
  for (int i = 0; i < parts; ++i) store_part(p + 4 * part_lanes * i, x.v[i]);
}

// Four vectors of small integers v0..v3 to bytes: lane j becomes v0[j] v1[j] v2[j] v3[j] (saturated to int8).
FP4_SIMD B packed_lanes(I v0, I v1, I v2, I v3) {
  FP4_EACH(B, reinterpret_cast<vb>(packed_part(v0.v[i], v1.v[i], v2.v[i], v3.v[i])));
}
struct ByteTable {  // 128 entries by an index mod 128
  int8_t entry[128];
};
FP4_SIMD ByteTable load_table(const int8_t* p) {
  ByteTable t;
  __builtin_memcpy(t.entry, p, sizeof t.entry);
  return t;
}
FP4_SIMD B look_up(const ByteTable& t, B index) { FP4_EACH(B, entries_of_128(t.entry, index.v[i])); }
struct NibbleTable {
  int8_t entry[16];
};
FP4_SIMD NibbleTable load_nibble_table(const int8_t* p) {
  NibbleTable t;
  __builtin_memcpy(t.entry, p, sizeof t.entry);
  return t;
}
// The entries of four nibbles of every lane: its low or its high half.
template <bool high>
FP4_SIMD B nibble_bytes(const NibbleTable& t, I x) {
  const I half = high ? shift_right<16>(x) : x & all(0xFFFF);
  const I bytes = (half | shift_left<8>(half)) & all(0x00FF00FF);
  const B index = bytes_of((bytes | shift_left<4>(bytes)) & all(0x0F0F0F0F));
  FP4_EACH(B, entries_part(t.entry, index.v[i]));
}
// The entries of bytes' magnitudes below 16.
FP4_SIMD B magnitude_entries(const NibbleTable& t, B x) {
  FP4_EACH(B, entries_part(t.entry, larger_part(x.v[i], -x.v[i])));
}
// The low words of x and the high words of y.
FP4_SIMD I joined_words(I x, I y) { return (x & all(0xFFFF)) | (y & all(0xFFFF0000u)); }
FP4_SIMD void store_words(int16_t* p, I x) { store(reinterpret_cast<int8_t*>(p), bytes_of(x)); }
// Four nibbles of every lane, a byte each, to one word.
FP4_SIMD I joined_half(I x) {
  const I pairs = (x | shift_right<4>(x)) & all(0x00FF00FF);
  return (pairs | shift_right<8>(pairs)) & all(0xFFFF);
}
FP4_SIMD I joined_nibbles(B low, B high) {
  return joined_half(lanes_of(low)) | shift_left<16>(joined_half(lanes_of(high)));
}
FP4_SIMD B add_bytes(B x, B y) { FP4_EACH(B, x.v[i] + y.v[i]); }
FP4_SIMD B all_bytes(int8_t x) { return bytes_of(all(0x01010101u * static_cast<uint8_t>(x))); }
FP4_SIMD B within(B x, int8_t low, int8_t high) {
  FP4_EACH(B, smaller_part(larger_part(x.v[i], vb{} + low), vb{} + high));
}
// sum + the products of four bytes of `row` (unsigned) and those of every lane (signed); two of them fit 16 bits.
FP4_SIMD I add_products(I sum, int32_t row, B x) { FP4_EACH(I, sum.v[i] + products_part(row, signed_of(x.v[i]))); }
FP4_SIMD I add_squares(I sum, B x) {
  I r;
  for (int i = 0; i < parts; ++i) {
    const vh even = reinterpret_cast<vh>(reinterpret_cast<vw>(x.v[i]) << 8) >> 8;
    const vh odd = reinterpret_cast<vh>(x.v[i]) >> 8;
    r.v[i] = sum.v[i] + pair_sums(even * even + odd * odd);
  }
  return r;
}
FP4_SIMD I add_dots(I sum, uint8_t factor, B x) {
  return add_products(sum, static_cast<int32_t>(0x01010101u * factor), x);
}

// Philox4x32-10 of 16 counters (low, high, stream, step).
FP4_SIMD Words philox(I low, I high, uint32_t stream, uint32_t step, uint64_t seed) {
  Words w;
  for (int part = 0; part < parts; ++part) {
    vq word[4];
    philox_words(reinterpret_cast<vq>(low.v[part]), reinterpret_cast<vq>(high.v[part]), stream, step, seed, word);
    for (int i = 0; i < 4; ++i) w.word[i].v[part] = signed_of(word[i]);
  }
  return w;
}

// Rows to columns, four by four, in every quarter of 16 bytes.
FP4_SIMD void transpose_4x4(vf (&x)[4]) {
  const vf a = interleaved_low(x[0], x[1]);
  const vf b = interleaved_high(x[0], x[1]);
  const vf c = interleaved_low(x[2], x[3]);
  const vf d = interleaved_high(x[2], x[3]);
  x[0] = low_halves(a, c);
  x[1] = high_halves(a, c);
  x[2] = low_halves(b, d);
  x[3] = high_halves(b, d);
}
// 16 rows of 4 floats (row stride in floats) to 4 vectors, lane = row.
FP4_SIMD void transpose_16x4(const float* x, int64_t stride, F out[4]) {
  for (int q = 0; q < parts; ++q) {
    vf part[4];
    for (int r = 0; r < 4; ++r) part[r] = load_quarters(x + (part_lanes * q + r) * stride, 4 * stride);
    transpose_4x4(part);
    for (int i = 0; i < 4; ++i) out[i].v[q] = part[i];
  }
}
// Four columns of sixteen rows, [4][16], to four numbers of part_lanes rows from `row` on, `stride` bytes apart.
template <class T>
FP4_SIMD void store_four_columns(const T (*x)[16], int row, uint8_t* out, int64_t stride) {
  vf part[4];
  for (int i = 0; i < 4; ++i) part[i] = load_part<vf>(x[i] + row);
  transpose_4x4(part);
  for (int r = 0; r < 4; ++r) store_quarters(out + (row + r) * stride, 4 * stride, part[r]);
}
// Columns [k][16 rows] back to rows of `valid` floats.
FP4_SIMD void store_transposed(const float (*x)[16], int rows, int valid, float* out, int64_t stride) {
  const int full_rows = rows / part_lanes * part_lanes;
  const int full = valid / 4 * 4;
  for (int row = 0; row < full_rows; row += part_lanes) {
    for (int k = 0; k < full; k += 4) store_four_columns(x + k, row, reinterpret_cast<uint8_t*>(out + k), 4 * stride);
  }
  for (int r = 0; r < rows; ++r) {
    for (int i = r < full_rows ? full : 0; i < valid; ++i) out[r * stride + i] = x[i][r];
  }
}
// Four dwords of sixteen rows, [4][16], to 16 bytes of each row.
FP4_SIMD void store_transposed_dwords(const uint32_t (*x)[16], uint8_t* out, int64_t stride) {
  for (int row = 0; row < 16; row += part_lanes) store_four_columns(x, row, out, stride);
}

// The Hadamard transform of sixteen neighbours.
FP4_SIMD F transformed_lanes(F x) {
  for (vf& v : x.v) v = transformed_part(v);
  for (int step = 1; step < parts; step *= 2) {
    for (int i = 0; i < parts; ++i) {
      if ((i & step) != 0) continue;
      const vf low = x.v[i];
      x.v[i] = x.v[i + step] + low;
      x.v[i + step] = low - x.v[i + step];
    }
  }
  return x;
}

// The codes of sixteen neighbours, `width` bits each; of two in a byte the lower half comes first.
template <int width>
FP4_SIMD I neighbours(const uint8_t* p) {
  FP4_EACH(I, codes_part<width>(p + part_lanes * width / 8 * i));
}

#undef FP4_EACH

}  // namespace fp4::FP4_ISA
