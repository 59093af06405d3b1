// What ends a panel: range and level of its scales, and one last sweep over its bytes.
#pragma once

#include "src/cpu/quantize/blocks_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

struct Extremes {  // scale bits so far, lane by lane
  I least = {};
  I largest = {};
};

FP4_SIMD Extremes no_extremes_yet() { return {all(0x7F800000), all(0)}; }

// Writes the scales of a block into the panel, notes range and NaN; returns the bits that were written.
FP4_SIMD I note_panel_scales(const Quantization& z, const Block& b, int64_t panel, Extremes& extremes) {
  Panels& out = *z.out;
  F scale = b.scales.value;
  const M nan = is_nan(scale);
  if (any(nan)) {
    out.nan_rows[panel] = static_cast<uint16_t>(out.nan_rows[panel] | to_bits(nan));
    scale = select(nan, all(0.0f), scale);
  }
  if (z.options.neutral_zeros) scale = select((b.amax == all(0)) & ~b.nonfinite, all(0.0f), scale);
  store(out.scale + (panel * out.scales_per_panel + b.k0 / out.block) * panel_rows, scale);
  const I s = bits(scale);
  extremes.least = smaller_unsigned(extremes.least, select(s == all(0), extremes.least, s));
  extremes.largest = larger(extremes.largest, s);
  return s;
}

FP4_SIMD void note_range(Panels& out, int64_t panel, const Extremes& extremes) {
  out.range[panel] = {static_cast<uint32_t>(smallest_lane(extremes.least)),
                      static_cast<uint32_t>(largest_lane(extremes.largest))};
}

// Bytes of a run, moved `by` bits up (`kept`: bits that stay) and flipped; returns the sum of factor * byte before
// that.
template <bool shifts>
FP4_SIMD I complete_run(int8_t* bytes, int64_t n, I by, I kept, uint8_t factor, I flip) {
  I sum = all(0);
  auto* lanes = reinterpret_cast<int32_t*>(bytes);
  for (int64_t k = 0; k < n; k += 4, lanes += panel_rows) {
    I b = load(lanes);
    if (shifts) b = shift_left(b, by) & kept;
    sum = add_dots(sum, factor, bytes_of(b));
    store(lanes, b ^ flip);
  }
  return sum;
}

// The last sweep over the bytes of a panel: the differences of scales move into the bytes of a level panel, corrections
// are summed, and signed bytes become unsigned ones, 128 up.
FP4_TARGET inline void complete_panel(const PanelOptions& options, Panels& out, int64_t panel, bool may_level) {
  const bool levels = may_level && out.level[panel].possible;
  const bool corrects = options.correction_factor != 0;
  if (!levels && !corrects && !options.makes_unsigned) return;
  int8_t* bytes = out.bytes + panel * out.padded * panel_rows;
  float* scale = out.scale + panel * out.scales_per_panel * panel_rows;
  const auto factor = static_cast<uint8_t>(options.correction_factor);
  const I flip = all(options.makes_unsigned ? 0x80808080u : 0u);
  const int64_t block = smaller(out.block, out.padded);
  const int64_t run = corrects ? options.run : block;
  const int64_t runs = out.padded / run;
  const F row = levels ? load(out.row_scale + panel * panel_rows) : all(0.0f);
  I by = all(0);
  I kept = all(0);
  I total = all(0);
  bool shifts = false;
  for (int64_t r = 0; r < runs; ++r) {
    if (levels && r * run % block == 0) {
      const I s = bits(load(scale + r * run / block * panel_rows));
      store(scale + r * run / block * panel_rows, row);
      shifts = any(~(s == bits(row)) | (s == all(0)));  // blocks without a scale may hold something
      by = shift_right<23>(s - bits(row));              // of dead blocks anything: their bytes become or are 0
      kept = shift_left(all(0xFF), by) & all(0xFF);
      kept = kept | shift_left<8>(kept);
      kept = select(s == all(0), all(0), kept | shift_left<16>(kept));
    }
    int8_t* first = bytes + r * run * panel_rows;
    const I sum = shifts ? complete_run<true>(first, run, by, kept, factor, flip)
                         : complete_run<false>(first, run, by, kept, factor, flip);
    if (!corrects) continue;
    store(out.correction + (panel * runs + r) * panel_rows, all(options.start) - sum);
    total = total - sum;
  }
  if (corrects) store(out.total + panel * panel_rows, total);
  if (levels) out.level[panel].done = true;
}

FP4_TARGET inline void close_panel(const PanelOptions& options, Panels& out, int64_t panel) {
  if (options.level_room >= 0) measure_level(out, panel, options.level_room);
  if (!options.postpones) complete_panel(options, out, panel, options.level_room >= 0);
}

}  // namespace fp4::FP4_ISA
