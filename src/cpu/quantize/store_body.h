// Codes and scales of blocks in the layout of the files.
#pragma once

#include "src/cpu/quantize/encode_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

inline int code_width(const Quantized& q) { return q.is_packed() ? 4 : 8 * q.code_bytes(); }

// Codes [n][16] to dwords of rows: 8, 4, 2 or 1 codes make one.
FP4_TARGET inline void join_codes(int width, const uint32_t* codes, int n, uint32_t (*dwords)[panel_rows]) {
  const int per_dword = 32 / width;
  for (int i = 0; i < n / per_dword; ++i) {
    I packed = load(codes + i * per_dword * panel_rows);
    for (int j = 1; j < per_dword; ++j) {
      packed = packed | shift_left(load(codes + (i * per_dword + j) * panel_rows), j * width);
    }
    store(dwords[i], packed);
  }
}

// FP4 values (multiples of the quantum) of four columns to codes; a value of zero has the sign of its element.
FP4_SIMD B fp4_codes(const Quantization& z, Columns x, bool drops, const int8_t* values) {
  const B value = load_bytes(values);
  I sign;
  if (drops) {
    sign = shift_right<4>(lanes_of(value) & all(0x80808080u));
  } else {
    sign = (shift_right<28>(bits(load(x[0]))) & all(0x8)) | (shift_right<20>(bits(load(x[1]))) & all(0x800)) |
           (shift_right<12>(bits(load(x[2]))) & all(0x80000)) | (shift_right<4>(bits(load(x[3]))) & all(0x8000000));
  }
  return bytes_of(lanes_of(magnitude_entries(z.magnitude_codes, value)) | sign);
}

// The values of an FP4 block, [n/4][16][4], to dwords of codes.
FP4_TARGET inline void store_fp4_codes(const Quantization& z, const Block& b, const int8_t* values,
                                       uint32_t (*dwords)[panel_rows]) {
  const bool drops = z.plan->q.negative_zero == NegativeZero::drop;
  for (int k = 0; k < b.n; k += 8) {
    const B low = fp4_codes(z, b.x + k, drops, values + k * panel_rows);
    const B high = fp4_codes(z, b.x + k + 4, drops, values + (k + 4) * panel_rows);
    store(dwords[k / 8], joined_nibbles(low, high));
  }
}

// A block to dwords of codes. FP4 goes by its values where these have a short way.
FP4_TARGET inline void encode_stored(const Quantization& z, Block& b, const uint32_t (*draw)[panel_rows],
                                     uint32_t (*dwords)[panel_rows]) {
  const QuantPlan& p = *z.plan;
  const bool short_way =
      p.q.has_scale() && p.code_path != CodePath::generic && p.payload_path != PayloadPath::scalar && !any(b.nonfinite);
  if (!short_way) {
    alignas(64) uint32_t codes[128][panel_rows];
    encode_block(z, b, draw, {nullptr, nullptr, codes[0]});
    return join_codes(code_width(*z.stored), codes[0], b.n, dwords);
  }
  alignas(64) int8_t values[128 * panel_rows];
  encode_fp4_bytes(z, b, draw, values);
  store_fp4_codes(z, b, values, dwords);
}

// Dwords of 16 rows, columns k0.. of K, to where they belong.
FP4_TARGET inline void store_dwords(Quantized& q, int64_t row0, int rows, int64_t k0, int n,
                                    const uint32_t (*dwords)[panel_rows]) {
  const int width = code_width(q);
  const int64_t row_bytes = q.code_row_bytes();
  const int64_t first = k0 * width / 8;
  const int64_t left = row_bytes - first;
  if (left <= 0) return;
  const int64_t count = n * width / 32;
  const int64_t whole = smaller<int64_t>(count, left / 4);
  const int64_t rest = smaller<int64_t>(count * 4, left) - whole * 4;
  uint8_t* out = q.codes.data() + row0 * row_bytes + first;
  int64_t i = 0;
  if (rows == panel_rows) {
    for (; i + 4 <= whole; i += 4) store_transposed_dwords(dwords + i, out + 4 * i, row_bytes);
  }
  for (int r = 0; r < rows; ++r) {
    uint8_t* row = out + r * row_bytes;
    for (int64_t j = i; j < whole; ++j) std::memcpy(row + 4 * j, &dwords[j][r], 4);
    if (rest > 0) std::memcpy(row + 4 * whole, &dwords[whole][r], static_cast<size_t>(rest));
  }
}

FP4_TARGET inline void store_scales(const QuantPlan& p, Quantized& q, const Block& b) {
  if (b.k0 >= p.cols) return;
  alignas(64) uint32_t codes[panel_rows];
  store(codes, b.scales.code);
  const bool real = is_real(q.spec.scale);
  const BlockGeometry& g = q.geometry;
  const int64_t first = (b.row0 + g.block_rows - 1) / g.block_rows;  // block row: stored by the rows in which it starts
  auto index = static_cast<size_t>(first * g.scale_cols + b.k0 / g.block_cols);
  for (int64_t r = first * g.block_rows - b.row0; r < b.rows; r += g.block_rows) {
    if (real) {
      q.real_scales[index] = decode(p.q.scale, codes[r]);
    } else {
      q.scales[index] = static_cast<uint8_t>(codes[r]);
    }
    index += static_cast<size_t>(g.scale_cols);
  }
}

}  // namespace fp4::FP4_ISA
