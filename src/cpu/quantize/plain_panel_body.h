// The short way of the most common operands: FP4 in 1 x B blocks, scales that are powers of two read off the maximum, a
// deterministic rounding. One sweep does what quantize_body.h does for every format, with all that a block needs in
// registers.
#pragma once

#include "src/cpu/quantize/block_scales_body.h"
#include "src/cpu/quantize/complete_body.h"
#include "src/cpu/quantize/rows.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

inline bool is_plain(const Quantization& z) {
  const QuantPlan& p = *z.plan;
  return p.scale_path == ScalePath::power && p.payload_path == PayloadPath::power && p.code_path == CodePath::table &&
         (rounds_down || (p.q.prescale == 1.0f && !p.is_directed)) && z.stored == nullptr && z.out->bytes != nullptr &&
         z.out->values == nullptr && p.q.tensor_scale != TensorScale::outer128 && !z.draws.wanted &&
         p.hadamard.size <= largest_chunk;
}

// false: a block holds infinities or NaN, or its scale needs more than this; the panel is to be done anew.
template <bool by_rows>
FP4_TARGET bool quantize_plain_panel(const Quantization& z, int64_t panel) {
  const QuantPlan& p = *z.plan;
  Panels& out = *z.out;
  alignas(64) float buffer[by_rows ? 1 : largest_chunk][panel_rows];
  const int block = static_cast<int>(out.block);
  const int chunk = by_rows ? block : larger(p.hadamard.size, block);
  Extremes extremes = no_extremes_yet();
  LevelSoFar level = no_level_yet();
  out.nan_rows[panel] = 0;
  Block b;
  b.row0 = panel * panel_rows;
  b.n = block;
  b.factor = {all(p.factor.g), all(p.factor.te_multiplier)};
  int8_t* bytes = out.bytes + panel * out.padded * panel_rows;
  for (int64_t k0 = 0; k0 < out.padded; k0 += chunk) {
    const float* rows = p.x.data + b.row0 * p.x.row_stride + k0;
    const Columns elements = by_rows ? Columns() : columns_of(p, b.row0, k0, chunk, buffer);
    for (b.k0 = k0; b.k0 < k0 + chunk && b.k0 < out.padded; b.k0 += block, bytes += block * panel_rows) {
      if (by_rows) {
        b.amax = row_maxima(rows, p.x.row_stride);
        b.nonfinite = b.amax >= all(0x7F800000);
      } else {
        b.x = elements + (b.k0 - k0);
        find_maxima(b);
      }
      b.scales = scales_from_maxima(p, z.scale, b.amax, b.factor, all(0));
      if (any(b.nonfinite | b.scales.rare | (b.scales.code < all(27)))) return false;
      const F inverse = inverse_power(b.scales.code) * all(p.q.prescale);
      const I squares = by_rows ? row_table_bytes(z.table, rows, p.x.row_stride, inverse, bytes)
                                : table_bytes<false>(z.table, b.x, block, inverse, all(1.0f), bytes);
      note_level(level, squares, note_panel_scales(z, b, panel, extremes));
    }
  }
  note_range(out, panel, extremes);
  if (z.options.level_room >= 0) decide_level(out, panel, z.options.level_room, level);
  if (!z.options.postpones) complete_panel(z.options, out, panel, z.options.level_room >= 0);
  return true;
}

FP4_TARGET inline bool quantize_plainly(const Quantization& z, int64_t panel) {
  const Panels& out = *z.out;
  const bool by_rows = out.block == row_block_width && lies_in_rows(*z.plan, out.padded, panel);
  return by_rows ? quantize_plain_panel<true>(z, panel) : quantize_plain_panel<false>(z, panel);
}

}  // namespace fp4::FP4_ISA
