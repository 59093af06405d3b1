// Stored FP4 codes with 8-bit scales of 1 x B blocks, straight to panels of bytes: the codes of sixteen rows are
// transposed as dwords, and their nibbles go through a table.
#pragma once

#include "src/cpu/quantize/stored_body.h"
#include "src/cpu/simd/lanes.h"
#include "src/parallel.h"

namespace fp4::FP4_ISA {

inline bool has_nibble_path(const Quantized& q, const Panels& out) {
  return q.is_packed() && q.spec.has_scale() && !is_real(q.spec.scale) && q.spec.block.kind == BlockKind::vector &&
         out.bytes != nullptr && out.values == nullptr && !q.spec.has_outer_scale() &&
         q.code_row_bytes() < int64_t{1} << 26;
}

// Scales of four blocks of sixteen rows, from block `j` on; of missing ones anything.
struct ScaleReader {
  const uint8_t* base;
  int64_t cols;
  int64_t size;  // bytes from base on
  I offset;
};

FP4_TARGET inline ScaleReader read_scales(const Quantized& q, int64_t row0, int rows) {
  ScaleReader s;
  s.cols = q.geometry.scale_cols;
  s.base = q.scales.data() + row0 * s.cols;
  s.size = static_cast<int64_t>(q.scales.size()) - row0 * s.cols;
  alignas(64) int32_t offset[panel_rows];
  for (int r = 0; r < panel_rows; ++r) offset[r] = static_cast<int32_t>((r < rows ? r : 0) * s.cols);
  s.offset = load(offset);
  return s;
}

FP4_SIMD I scale_dwords(const ScaleReader& s, int rows, int64_t j) {
  if ((rows - 1) * s.cols + j + 4 <= s.size) return gather_bytes(s.base + j, s.offset);
  alignas(64) uint32_t words[panel_rows] = {};
  for (int r = 0; r < rows; ++r) {
    std::memcpy(&words[r], s.base + r * s.cols + j, static_cast<size_t>(smaller<int64_t>(4, s.cols - j)));
  }
  return load(words);
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
  const ScaleReader scales = read_scales(q, b.row0, b.rows);
  out.nan_rows[panel] = 0;
  Extremes extremes = {all(0x7F800000), all(0)};
  int8_t* bytes = out.bytes + panel * out.padded * panel_rows;
  I some = all(0);  // bits of a block's magnitudes
  I scale_codes = all(0);
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
      const int64_t j = k / block;
      if (j % 4 == 0 && j * block < q.cols) scale_codes = scale_dwords(scales, b.rows, j);
      const I code = shift_right(scale_codes, static_cast<int>(j % 4 * 8)) & all(0xFF);
      b.k0 = j * block;
      b.amax = some;
      b.scales.value = as_float(gather(reinterpret_cast<const uint32_t*>(t.scale), code));
      if (b.k0 >= q.cols) b.scales.value = all(1.0f);
      b.scales.value = select(lanes, b.scales.value, all(1.0f));
      note_scales(z, b, panel, extremes);
      some = all(0);
    }
  }
  out.range[panel] = {static_cast<uint32_t>(smallest_lane(extremes.least)),
                      static_cast<uint32_t>(largest_lane(extremes.largest))};
  close_panel(options, out, panel);
}

FP4_TARGET inline void pack_nibbles(const Quantized& q, const PanelOptions& options, Panels& out) {
  const Quantizer r = resolve(q.spec);
  DecodeTables t;
  fill_tables(r, t);
  alignas(16) int8_t entries[16];
  for (uint32_t code = 0; code < 16; ++code) {
    entries[code] = static_cast<int8_t>(decode_fixed(r.element, code) + options.byte_offset);
  }
  out.factor.g = q.tensor_scale.empty() ? 1.0f : q.tensor_scale[0];
  parallel_for(0, out.count, 1, options.threads, 4,
               [&](int64_t panel) { pack_nibble_panel(q, t, entries, options, out, panel); });
}

}  // namespace fp4::FP4_ISA
