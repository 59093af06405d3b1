// Codes and scales of blocks in the layout of the files.
#pragma once

#include "src/fast/blocks_body.h"

namespace fp4::FP4_ISA {

// Codes [n][16] of a block to the rows of a Quantized; 8, 4, 2 or 1 codes make a dword of a row.
FP4_TARGET inline void store_codes(Quantized& q, const Block& b, const uint32_t* codes) {
  const int width = q.is_packed() ? 4 : 8 * q.code_bytes();
  const int per_dword = 32 / width;
  const int64_t row_bytes = q.code_row_bytes();
  const int64_t first = b.k0 * width / 8;
  const int64_t left = row_bytes - first;
  if (left <= 0) return;
  alignas(64) uint32_t dwords[128][panel_rows];
  const int count = b.n / per_dword;
  for (int i = 0; i < count; ++i) {
    I packed = load(codes + i * per_dword * panel_rows);
    for (int j = 1; j < per_dword; ++j) {
      packed = packed | shift_left(load(codes + (i * per_dword + j) * panel_rows), j * width);
    }
    store(dwords[i], packed);
  }
  const int64_t whole = smaller<int64_t>(count, left / 4);
  const int64_t rest = smaller<int64_t>(count * 4, left) - whole * 4;
  for (int r = 0; r < b.rows; ++r) {
    uint8_t* out = q.codes.data() + (b.row0 + r) * row_bytes + first;
    for (int64_t i = 0; i < whole; ++i) std::memcpy(out + 4 * i, &dwords[i][r], 4);
    if (rest > 0) std::memcpy(out + 4 * whole, &dwords[whole][r], static_cast<size_t>(rest));
  }
}

FP4_TARGET inline void store_scales(const QuantPlan& p, Quantized& q, const Block& b) {
  if (b.k0 >= p.cols) return;
  alignas(64) uint32_t codes[panel_rows];
  store(codes, b.scales.code);
  const bool real = is_real(q.spec.scale);
  for (int r = 0; r < b.rows; ++r) {
    const int64_t row = b.row0 + r;
    if (row % q.geometry.block_rows != 0) continue;
    const auto index =
        static_cast<size_t>(row / q.geometry.block_rows * q.geometry.scale_cols + b.k0 / q.geometry.block_cols);
    if (real) {
      q.real_scales[index] = decode(p.q.scale, codes[r]);
    } else {
      q.scales[index] = static_cast<uint8_t>(codes[r]);
    }
  }
}

}  // namespace fp4::FP4_ISA
