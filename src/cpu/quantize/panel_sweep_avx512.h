// Panels of FP4 whose scales are no powers of two, or whose rounding draws bits: 128 columns at a time all scales
// first, then all codes, so that neither waits for the other. Codes come as those of runs (run_codes_avx512.h,
// run_draws_avx512.h); a block that needs more is done as quantize_body.h does it.
#pragma once

#include "src/cpu/quantize/panel_codes_avx512.h"
#include "src/cpu/quantize/panel_trials_avx512.h"
#include "src/cpu/quantize/runs_avx512.h"

namespace fp4::avx512 {

using SweepLoop = void (*)(const Quantization&, const PanelCodes&, int64_t);
struct Sweep {
  PanelCodes codes;
  SweepLoop rows = nullptr;  // along the rows
  SweepLoop columns = nullptr;
};

inline constexpr int sweep_width = 128;
inline constexpr int sweep_blocks = sweep_width / 16;

// A block with all that it may need, its scales among it unless `known`; returns its scale bits.
struct SlowBlock {
  Extremes extremes;
  I squares;
  I scales;
  const LaneScales* known;
};
FP4_TARGET __attribute__((noinline)) inline void sweep_slowly(const Quantization& z, int64_t panel, int64_t k0,
                                                              int8_t* bytes, SlowBlock& s) {
  const QuantPlan& p = *z.plan;
  alignas(64) float elements[largest_chunk][panel_rows];
  alignas(64) float payloads[panel_rows * 2][panel_rows];
  alignas(64) uint32_t draw[panel_rows * 2][panel_rows];
  Block b;
  b.row0 = panel * panel_rows;
  b.k0 = k0;
  b.n = static_cast<int>(z.out->block);
  const int64_t first = p.hadamard.size > b.n ? k0 / p.hadamard.size * p.hadamard.size : k0;
  load_chunk(p, b.row0, first, larger(p.hadamard.size, b.n), elements);
  LaneBuffer own = elements + (k0 - first);
  b.x = own;
  b.u = payloads;
  b.factor = {all(p.factor.g), all(p.factor.te_multiplier)};
  if (s.known != nullptr) {
    b.scales = *s.known;
    b.amax = all_maxima(b);
    b.rows = static_cast<int>(smaller<int64_t>(panel_rows, p.rows - b.row0));
    if (z.draws.wanted) fill_draws(p, z.draws, b.row0, b.k0, b.n, draw);
  } else {
    prepare_block(z, b, own, draw);
  }
  encode_block(z, b, draw, {bytes, nullptr, nullptr});
  s.scales = note_panel_scales(z, b, panel, s.extremes);
  s.squares = all(0);
  for (int k = 0; k < b.n; k += 4) s.squares = add_squares(s.squares, load_bytes(bytes + k * panel_rows));
}

template <RunKind kind, Drawing drawing, bool by_rows>
FP4_TARGET void sweep_panel(const Quantization& z, const PanelCodes& c, int64_t panel) {
  constexpr bool draws = drawing != Drawing::none;
  const QuantPlan& p = *z.plan;
  Panels& out = *z.out;
  alignas(64) float buffer[by_rows ? 1 : largest_chunk][panel_rows];
  RunFactors factors[sweep_blocks];
  alignas(64) uint32_t scales[sweep_blocks][panel_rows];
  bool usable[sweep_blocks];
  alignas(64) uint32_t maxima[sweep_blocks][panel_rows];
  LaneScales chosen[sweep_blocks];
  const bool trials = kind == RunKind::quotient && p.scale_path == ScalePath::trials;
  PanelDraws draw;
  const int block = static_cast<int>(out.block);
  // Columns a power of two apart share sets of the first cache: so many stay there to be read twice.
  constexpr int width = by_rows ? sweep_width : sweep_width / 2;
  const int64_t loaded_width = larger(p.hadamard.size, width);
  const RunPlan& run = c.run;
  constexpr int per_block = drawn_together<drawing> / 2;  // draws of a Philox block
  const auto row_step = static_cast<uint32_t>(p.cols / per_block);
  Extremes extremes = no_extremes_yet();
  LevelSoFar level = no_level_yet();
  const ByteTable table = z.table.table;
  out.nan_rows[panel] = 0;
  Block b;
  b.row0 = panel * panel_rows;
  b.n = block;
  b.factor = {all(p.factor.g), all(p.factor.te_multiplier)};
  const uint32_t first_draw = static_cast<uint32_t>(p.row_offset + b.row0) * row_step;
  int8_t* bytes = out.bytes + panel * out.padded * panel_rows;
  for (int64_t chunk = 0; chunk < out.padded; chunk += loaded_width) {
    const int64_t chunk_end = smaller(chunk + loaded_width, out.padded);
    Columns loaded;
    if (!by_rows) loaded = columns_of(p, b.row0, chunk, static_cast<int>(chunk_end - chunk), buffer);
    for (int64_t k0 = chunk; k0 < chunk_end; k0 += width) {
      const int64_t end = smaller<int64_t>(k0 + width, chunk_end);
      const float* rows = p.x.data + b.row0 * p.x.row_stride + k0;
      const Columns elements = loaded + (k0 - chunk);
      const int count = static_cast<int>((end - k0) / block);
      for (int i = 0; i < count; ++i) {
        if (by_rows) {
          const float* x = rows + i * block;
          b.amax = block == 16 ? block_maxima<1>(x, p.x.row_stride) : block_maxima<2>(x, p.x.row_stride);
        } else {
          b.x = elements + i * block;
          b.amax = all_maxima(b);
        }
        store(maxima[i], b.amax);
      }
      if (trials) {
        choose_panel_scales<by_rows>(z, b.factor, count, maxima, by_rows ? Columns(rows, p.x.row_stride) : elements,
                                     block, chosen);
      }
      for (int i = 0; i < count; ++i) {
        b.k0 = k0 + i * block;
        b.amax = load(maxima[i]);
        b.nonfinite = b.amax >= all(0x7F800000);
        if (!trials) chosen[i] = scales_from_maxima(p, z.scale, b.amax, b.factor, all(0));
        b.scales = chosen[i];
        usable[i] = !any(b.nonfinite | b.scales.rare) && find_factors(p, run, b.amax, b.scales, b.factor, factors[i]);
        if (usable[i]) store(scales[i], note_panel_scales(z, b, panel, extremes));
      }
      for (int n = 0; n < count; ++n, bytes += block * panel_rows) {
        const int64_t k = k0 + n * block;
        bool done = usable[n];
        I squares = all(0);
        for (int i = 0; i < block; i += 16) {
          const int64_t column = k + i;
          if (draws && column % drawn_together<drawing> == 0) {
            const uint32_t first = first_draw + static_cast<uint32_t>(column / per_block);
            fill_panel_draws<by_rows, drawing>(run.keys, first, row_step, draw);
          }
          const uint8_t* drawn = draw.draw + column % drawn_together<drawing> * 16;
          if constexpr (by_rows) {
            done &= row_bytes<kind, drawing>(c, table, factors[n], rows + (column - k0), p.x.row_stride, drawn,
                                             bytes + i * panel_rows, squares);
          } else {
            done &= column_bytes<kind, drawing>(c, table, factors[n], elements + (column - k0), drawn,
                                                bytes + i * panel_rows, squares);
          }
        }
        I s = load(scales[n]);
        if (__builtin_expect(!done, 0)) {
          SlowBlock slow = {extremes, squares, s, usable[n] ? &chosen[n] : nullptr};
          sweep_slowly(z, panel, k, bytes, slow);
          extremes = slow.extremes;
          squares = slow.squares;
          s = slow.scales;
        }
        if (kind == RunKind::power) note_level(level, squares, s);
      }
    }
  }
  note_range(out, panel, extremes);
  const bool levels = z.options.level_room >= 0 && kind == RunKind::power;
  out.level[panel] = {};
  if (levels) decide_level(out, panel, z.options.level_room, level);
  if (!z.options.postpones) complete_panel(z.options, out, panel, levels);
}

template <RunKind kind, Drawing drawing>
FP4_TARGET void set_loops(Sweep& s) {
  s.rows = sweep_panel<kind, drawing, true>;
  s.columns = sweep_panel<kind, drawing, false>;
}

template <RunKind kind>
FP4_TARGET void set_loops(Sweep& s, Drawing drawing) {
  switch (drawing) {
    case Drawing::none:
      if constexpr (kind != RunKind::power) set_loops<kind, Drawing::none>(s);
      return;
    case Drawing::exact:
      if constexpr (kind != RunKind::quotient) set_loops<kind, Drawing::exact>(s);
      return;
    case Drawing::estimates: return set_loops<kind, Drawing::estimates>(s);
    case Drawing::wide_estimates: return set_loops<kind, Drawing::wide_estimates>(s);
  }
}

// How a panel's draws come in; none: not here.
inline Drawing panel_drawing(const QuantPlan& p, RunKind kind) {
  const bool middle = p.q.rounding == Rounding::stochastic_midpoint;
  if (p.code_path != CodePath::stochastic_fp4 || (p.q.rounding != Rounding::stochastic && !middle))
    return Drawing::none;
  if (p.q.random_bits == 16) return Drawing::wide_estimates;
  if (p.q.random_bits != 8) return Drawing::none;
  return middle || kind == RunKind::quotient ? Drawing::estimates : Drawing::exact;
}

inline bool can_sweep(const Quantization& z) {
  const QuantPlan& p = *z.plan;
  const bool table = p.code_path == CodePath::table;
  const RunKind kind = factor_kind(p);
  return kind != RunKind::none && (table ? kind != RunKind::power : panel_drawing(p, kind) != Drawing::none) &&
         z.stored == nullptr && z.out->bytes != nullptr && z.out->values == nullptr && z.options.byte_offset == 0 &&
         p.q.tensor_scale != TensorScale::outer128 && p.hadamard.size <= largest_chunk && p.cols % 16 == 0;
}

FP4_TARGET inline Sweep plan_sweep(const Quantization& z) {
  Sweep s;
  if (!can_sweep(z)) return s;
  const QuantPlan& p = *z.plan;
  RunPlan& r = s.codes.run;
  r.kind = factor_kind(p);
  const bool draws = p.code_path != CodePath::table;
  r.codes = draws ? RunCodes::draws : RunCodes::table;
  if (draws) r.keys = run_keys(p.place);
  r.steps = draws ? 1.0f : p.steps;
  constexpr int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  s.codes.values = load_nibble_table(values);
  const Drawing drawing = panel_drawing(p, r.kind);
  switch (r.kind) {
    case RunKind::power: set_loops<RunKind::power>(s, drawing); break;
    case RunKind::product: set_loops<RunKind::product>(s, drawing); break;
    case RunKind::quotient: set_loops<RunKind::quotient>(s, drawing); break;
    case RunKind::none: break;
  }
  return s;
}

// false: not here.
FP4_TARGET inline bool sweep(const Quantization& z, const Sweep& s, int64_t panel) {
  if (s.rows == nullptr) return false;
  const bool by_rows = lies_in_rows(*z.plan, z.out->padded, panel);
  (by_rows ? s.rows : s.columns)(z, s.codes, panel);
  return true;
}

}  // namespace fp4::avx512
