// Bytes, tables, random words, transposes and codes as they lie in memory.
#pragma once

#include "src/cpu/simd/generic_doubles.h"

namespace fp4::generic {

FP4_SIMD I lanes_of(B x) { FP4_EACH(I, x.v[i]); }
FP4_SIMD B bytes_of(I x) { FP4_EACH(B, x.v[i]); }
FP4_SIMD B load_bytes(const int8_t* p) { FP4_EACH(B, load_part<i4>(p + 16 * i)); }
FP4_SIMD void store(int8_t* p, B x) {
  for (int i = 0; i < 4; ++i) store_part(p + 16 * i, x.v[i]);
}
FP4_SIMD b16 bytes(i4 x) { return reinterpret_cast<b16>(x); }

FP4_SIMD B packed_lanes_unsigned(I v0, I v1, I v2, I v3) {
  const I byte = all(0xFF);
  const I low = (v0 & byte) | shift_left<8>(v1 & byte);
  const I high = (v2 & byte) | shift_left<8>(v3 & byte);
  return bytes_of(low | shift_left<16>(high));
}
FP4_SIMD I saturated(I x) { return smaller(larger(x, all(-128)), all(127)); }
FP4_SIMD B packed_lanes(I v0, I v1, I v2, I v3) {
  return packed_lanes_unsigned(saturated(v0), saturated(v1), saturated(v2), saturated(v3));
}
struct ByteTable {  // 128 entries by an index mod 128
  int8_t entry[128];
};
FP4_SIMD ByteTable load_table(const int8_t* p) {
  ByteTable t;
  __builtin_memcpy(t.entry, p, sizeof t.entry);
  return t;
}
FP4_SIMD B look_up(const ByteTable& t, B index) {
  alignas(16) int8_t at[64];
  store(at, index);
  for (int8_t& i : at) i = t.entry[i & 127];
  return load_bytes(at);
}
struct NibbleTable {
  b16 v;
};
FP4_SIMD NibbleTable load_nibble_table(const int8_t* p) { return {load_part<b16>(p)}; }
FP4_SIMD B entries_of(NibbleTable t, B index) { FP4_EACH(B, signed_of(entries_part(t.v, bytes(index.v[i])))); }
// The entries of four nibbles of every lane: its low or its high half.
template <bool high>
FP4_SIMD B nibble_bytes(NibbleTable t, I x) {
  const I half = high ? shift_right<16>(x) : x & all(0xFFFF);
  const I bytes = (half | shift_left<8>(half)) & all(0x00FF00FF);
  return entries_of(t, bytes_of((bytes | shift_left<4>(bytes)) & all(0x0F0F0F0F)));
}
// The entries of bytes' magnitudes below 16.
FP4_SIMD B magnitude_entries(NibbleTable t, B x) {
  B index;
  for (int i = 0; i < 4; ++i) {
    const b16 b = bytes(x.v[i]);
    index.v[i] = signed_of(chosen(b < 0, -b, b));
  }
  return entries_of(t, index);
}
// The low words of x and the high words of y.
FP4_SIMD I joined_words(I x, I y) { return (x & all(0xFFFF)) | (y & all(0xFFFF0000u)); }
FP4_SIMD void store_words(int16_t* p, I x) {
  for (int i = 0; i < 4; ++i) store_part(p + 8 * i, x.v[i]);
}
// Four nibbles of every lane, a byte each, to one word.
FP4_SIMD I joined_half(I x) {
  const I pairs = (x | shift_right<4>(x)) & all(0x00FF00FF);
  return (pairs | shift_right<8>(pairs)) & all(0xFFFF);
}
FP4_SIMD I joined_nibbles(B low, B high) {
  return joined_half(lanes_of(low)) | shift_left<16>(joined_half(lanes_of(high)));
}
FP4_SIMD B add_bytes(B x, B y) { FP4_EACH(B, signed_of(bytes(x.v[i]) + bytes(y.v[i]))); }
FP4_SIMD B all_bytes(int8_t x) { return bytes_of(all(0x01010101u * static_cast<uint8_t>(x))); }
FP4_SIMD B within(B x, int8_t low, int8_t high) {
  B r;
  for (int i = 0; i < 4; ++i) {
    const b16 b = bytes(x.v[i]);
    const b16 least = b16{} + low;
    const b16 most = b16{} + high;
    const b16 up = chosen(b < least, least, b);
    r.v[i] = signed_of(chosen(up > most, most, up));
  }
  return r;
}
// Even and odd bytes as 16-bit integers.
FP4_SIMD h8 even_bytes(i4 x) { return reinterpret_cast<h8>(reinterpret_cast<w8>(x) << 8) >> 8; }
FP4_SIMD h8 odd_bytes(i4 x) { return reinterpret_cast<h8>(x) >> 8; }
// sum + the products of four bytes of `row` (unsigned) and those of every lane (signed); two of them fit 16 bits.
FP4_SIMD I add_products(I sum, int32_t row, B x) {
  const auto word = static_cast<uint32_t>(row);
  const auto even = reinterpret_cast<h8>(u4{} + (word & 0x00FF00FFu));
  const auto odd = reinterpret_cast<h8>(u4{} + (word >> 8 & 0x00FF00FFu));
  FP4_EACH(I, sum.v[i] + pair_sums(even_bytes(x.v[i]) * even + odd_bytes(x.v[i]) * odd));
}
FP4_SIMD I add_squares(I sum, B x) {
  I r;
  for (int i = 0; i < 4; ++i) {
    const h8 even = even_bytes(x.v[i]);
    const h8 odd = odd_bytes(x.v[i]);
    r.v[i] = sum.v[i] + pair_sums(even * even + odd * odd);
  }
  return r;
}
FP4_SIMD I add_dots(I sum, uint8_t factor, B x) {
  return add_products(sum, static_cast<int32_t>(0x01010101u * factor), x);
}

// Philox4x32-10 of 16 counters (block, 0, stream, step).
struct Words {
  I word[4];
};
FP4_SIMD Words philox(I block, uint32_t stream, uint32_t step, uint64_t seed) {
  Words w;
  for (int part = 0; part < 4; ++part) {
    q2 c[2][4];  // even and odd lanes
    c[0][0] = reinterpret_cast<q2>(block.v[part]);
    c[1][0] = c[0][0] >> 32;
    for (auto& half : c) half[1] = q2{}, half[2] = q2{} + stream, half[3] = q2{} + step;
    auto key0 = static_cast<uint32_t>(seed);
    auto key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      for (auto& half : c) {
        const q2 p0 = low_products(half[0], q2{} + 0xD2511F53u);
        const q2 p1 = low_products(half[2], q2{} + 0xCD9E8D57u);
        half[0] = (p1 >> 32) ^ half[1] ^ key0;
        half[2] = (p0 >> 32) ^ half[3] ^ key1;
        half[1] = p1;
        half[3] = p0;
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; ++i) w.word[i].v[part] = signed_of((c[0][i] & 0xFFFFFFFFu) | c[1][i] << 32);
  }
  return w;
}

// Rows to columns, four by four.
template <class T>
FP4_SIMD void transpose_4x4(T (&x)[4]) {
  const T a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
  const T b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
  const T c = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
  const T d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
  x[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  x[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  x[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  x[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
// 16 rows of 4 floats (row stride in floats) to 4 vectors, lane = row.
FP4_SIMD void transpose_16x4(const float* x, int64_t stride, F out[4]) {
  for (int q = 0; q < 4; ++q) {
    f4 part[4];
    for (int r = 0; r < 4; ++r) part[r] = load_part<f4>(x + (4 * q + r) * stride);
    transpose_4x4(part);
    for (int i = 0; i < 4; ++i) out[i].v[q] = part[i];
  }
}
// Columns [k][16 rows] back to rows of `valid` floats.
FP4_SIMD void store_transposed(const float (*x)[16], int rows, int valid, float* out, int64_t stride) {
  const int full_rows = rows / 4 * 4;
  const int full = valid / 4 * 4;
  for (int r0 = 0; r0 < full_rows; r0 += 4) {
    for (int k = 0; k < full; k += 4) {
      f4 part[4];
      for (int i = 0; i < 4; ++i) part[i] = load_part<f4>(x[k + i] + r0);
      transpose_4x4(part);
      for (int r = 0; r < 4; ++r) store_part(out + (r0 + r) * stride + k, part[r]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int i = r < full_rows ? full : 0; i < valid; ++i) out[r * stride + i] = x[i][r];
  }
}
// Four dwords of sixteen rows, [4][16], to 16 bytes of each row.
FP4_SIMD void store_transposed_dwords(const uint32_t (*x)[16], uint8_t* out, int64_t stride) {
  for (int r0 = 0; r0 < 16; r0 += 4) {
    i4 part[4];
    for (int i = 0; i < 4; ++i) part[i] = load_part<i4>(x[i] + r0);
    transpose_4x4(part);
    for (int r = 0; r < 4; ++r) store_part(out + (r0 + r) * stride, part[r]);
  }
}

// The Hadamard transform of sixteen neighbours. Lane j becomes other[j] + x[j], or other[j] - x[j] where its bit is
// set.
FP4_SIMD F transformed_lanes(F x) {
  for (f4& v : x.v) {
    v = __builtin_shufflevector(v, v, 1, 0, 3, 2) + v * f4{1, -1, 1, -1};
    v = __builtin_shufflevector(v, v, 2, 3, 0, 1) + v * f4{1, 1, -1, -1};
  }
  const f4 a[4] = {x.v[1] + x.v[0], x.v[0] - x.v[1], x.v[3] + x.v[2], x.v[2] - x.v[3]};
  return {{a[2] + a[0], a[3] + a[1], a[0] - a[2], a[1] - a[3]}};
}

// The codes of sixteen neighbours, `width` bits each; of two in a byte the lower half comes first.
template <int width>
FP4_SIMD I neighbours(const uint8_t* p) {
  return each_lane<I>(lane_numbers(), [p](int32_t l) -> int32_t {
    if constexpr (width == 4) {
      return p[l / 2] >> (l % 2 * 4) & 0xF;
    } else if constexpr (width == 8) {
      return p[l];
    } else if constexpr (width == 16) {
      uint16_t code;
      __builtin_memcpy(&code, p + 2 * l, 2);
      return code;
    } else {
      int32_t code;
      __builtin_memcpy(&code, p + 4 * l, 4);
      return code;
    }
  });
}

#undef FP4_EACH

}  // namespace fp4::generic
