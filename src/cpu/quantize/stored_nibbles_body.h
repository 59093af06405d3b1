// Stored FP4 codes with 8-bit scales of 1 x B blocks, straight to panels of bytes: the codes of sixteen rows are
// transposed as dwords, and their nibbles go through a table.
#pragma once

#include "src/cpu/quantize/stored_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/threads/parallel.h"

namespace fp4::FP4_ISA {

inline bool has_nibble_path(const Quantized& q, const Panels& out) {
  return q.is_packed() && q.spec.has_scale() && !is_real(q.spec.scale) && q.spec.block.kind == BlockKind::vector &&
         out.bytes != nullptr && out.values == nullptr && q.spec.tensor_scale_cols(q.cols) == 0 &&
         q.code_row_bytes() < int64_t{1} << 26;
}

// Four dwords of each row, 32 columns from byte `at` on.
FP4_SIMD void load_dwords(const CodeReader& c, int rows, M lanes, int64_t at, I out[4]) {
  if (rows == panel_rows && at + 16 <= c.row_bytes) {
    F columns[4];
    transpose_16x4(reinterpret_cast<const float*>(c.base + at), c.row_bytes / 4, columns);
    for (int i = 0; i < 4; ++i) out[i] = bits(columns[i]);
    return;
  }
  for (int i = 0; i < 4; ++i) out[i] = select(lanes, row_dwords(c, at + 4 * i), all(0));
}

// Scales of block `j` of sixteen rows; 1 beyond rows and blocks.
FP4_SIMD F code_scales(const Quantized& q, const DecodeTables& t, int64_t row0, int rows, int64_t j) {
  alignas(64) float s[panel_rows];
  const int64_t cols = q.geometry.scale_cols;
  const int valid = j < cols ? rows : 0;
  for (int r = 0; r < panel_rows; ++r) {
    s[r] = r < valid ? t.scale[q.scales[static_cast<size_t>((row0 + r) * cols + j)]] : 1.0f;
  }
  return load(s);
}

FP4_TARGET inline void pack_nibble_panel(const Quantized& q, const DecodeTables& t, const int8_t* entries,
                                         const PanelOptions& options, Panels& out, int64_t panel) {
  const NibbleTable table = load_nibble_table(entries);
  const int64_t block = q.spec.block.size;
  Quantization z;
  z.out = &out;
  z.options = options;
  Block b;
  b.row0 = panel * panel_rows;
  b.rows = static_cast<int>(smaller<int64_t>(panel_rows, q.rows - b.row0));
  const M lanes = first_lanes(b.rows);
  const CodeReader codes = read_codes(q, b.row0, b.rows);
  out.nan_rows[panel] = 0;
  Extremes extremes = no_extremes_yet();
  int8_t* bytes = out.bytes + panel * out.padded * panel_rows;
  I some = all(0);  // bits of a block's magnitudes
  for (int64_t k0 = 0; k0 < out.padded; k0 += 32) {
    I dword[4];
    load_dwords(codes, b.rows, lanes, k0 / 2, dword);
    for (int i = 0; i < 4; ++i) {
      const int64_t k = k0 + 8 * i;
      if (k >= out.padded) break;
      store(bytes + k * panel_rows, nibble_bytes<false>(table, dword[i]));
      store(bytes + (k + 4) * panel_rows, nibble_bytes<true>(table, dword[i]));
      some = some | (dword[i] & all(0x77777777));
      if ((k + 8) % block != 0) continue;
      b.k0 = k / block * block;
      b.amax = some;
      b.scales.value = code_scales(q, t, b.row0, b.rows, b.k0 / block);
      note_scales(z, b, panel, extremes);
      some = all(0);
    }
  }
  note_range(out, panel, extremes);
  close_panel(options, out, panel);
}

// The panels of a gemm from stored codes.
FP4_TARGET inline void pack_stored(const Quantized& q, const PanelOptions& options, Panels& out) {
  const Quantizer r = resolve(q.spec);
  const DecodeTables t = decode_tables(q.spec, r);
  const bool nibbles = has_nibble_path(q, out);
  alignas(16) int8_t entries[16];
  for (uint32_t code = 0; nibbles && code < 16; ++code) {
    entries[code] = static_cast<int8_t>(decode_fixed(r.element, code) + options.byte_offset);
  }
  out.factor.g = q.tensor_scale.empty() ? 1.0f : q.tensor_scale[0];
  parallel_for(0, out.count, 1, options.threads, 4, [&](int64_t panel) {
    if (nibbles) {
      pack_nibble_panel(q, t, entries, options, out, panel);
    } else {
      pack_stored_panel(q, r, t, options, out, panel);
    }
  });
}

}  // namespace fp4::FP4_ISA
