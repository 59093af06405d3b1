// The random draws of sixteen rows, as rng.h places them: a pure function of the position in the operand.
#pragma once

#include "src/cpu/quantize/quantize_plan.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

using cpu::panel_rows;
using cpu::QuantPlan;

struct DrawPlan {
  bool wanted = false;
  bool aligned = false;  // a row starts at a Philox block
  int bits = 8;
  int per_block = 16;  // draws in a Philox block
};

// Draws of n_bits at positions of a sequence of Philox words, one sequence a lane.
FP4_SIMD I picked_draws(const uint32_t (*words)[panel_rows], I position, int n_bits) {
  const int bits_log2 = __builtin_ctz(static_cast<unsigned>(n_bits));
  const I word = shift_right(position, 5 - bits_log2);
  const I value = gather(words[0], shift_left<4>(word) + lane_numbers());
  const I within_word = position & all((32 >> bits_log2) - 1);
  return shift_right(value, shift_left(within_word, bits_log2)) & all(n_bits == 32 ? 0xFFFFFFFFu : (1u << n_bits) - 1u);
}

// The draws of columns k0..k0+n of 16 rows.
FP4_TARGET inline void fill_draws(const QuantPlan& p, const DrawPlan& d, int64_t row0, int64_t k0, int n,
                                  uint32_t (*draw)[panel_rows]) {
  const uint32_t mask = d.bits == 32 ? 0xFFFFFFFFu : (1u << d.bits) - 1u;
  const int per_word = 32 / d.bits;
  const auto cols = static_cast<uint64_t>(p.cols);
  const auto per_block = static_cast<uint64_t>(d.per_block);
  const uint64_t first = (static_cast<uint64_t>(p.row_offset + row0)) * cols + static_cast<uint64_t>(k0);
  if (d.aligned) {
    const I lane_step = multiply_low(lane_numbers(), all(static_cast<uint32_t>(cols / per_block)));
    const auto phase = static_cast<int>(first % per_block);  // the same for all lanes
    auto block = static_cast<uint32_t>(first / per_block);
    for (int k = -phase; k < n; k += d.per_block) {
      const Words w = philox(lane_step + all(block++), all(0), p.place.stream, p.place.step, p.place.seed);
      for (int i = 0; i < d.per_block; ++i) {
        if (k + i < 0 || k + i >= n) continue;
        store(draw[k + i], shift_right(w.word[i / per_word], (i % per_word) * d.bits) & all(mask));
      }
    }
    return;
  }
  alignas(64) uint32_t words[128 / 4 + 8][panel_rows];
  alignas(64) uint32_t start[panel_rows];
  alignas(64) uint32_t phase[panel_rows];
  for (int lane = 0; lane < panel_rows; ++lane) {
    const uint64_t position = first + static_cast<uint64_t>(lane) * cols;
    start[lane] = static_cast<uint32_t>(position / per_block);
    phase[lane] = static_cast<uint32_t>(position % per_block);
  }
  const I lane_phase = load(phase);
  I block = load(start);
  for (int k = 0; k < n; k += 32) {  // 32 columns at a time touch at most 32/per_block + 1 Philox blocks
    const int count = n - k < 32 ? n - k : 32;
    const int blocks = (count + d.per_block - 1) / d.per_block + 1;
    for (int b = 0; b < blocks; ++b) {
      const Words w = philox(block + all(static_cast<uint32_t>(b)), all(0), p.place.stream, p.place.step, p.place.seed);
      for (int i = 0; i < 4; ++i) store(words[4 * b + i], w.word[i]);
    }
    for (int i = 0; i < count; ++i) store(draw[k + i], picked_draws(words, lane_phase + all(i), d.bits));
    block = block + all(32 / d.per_block);
  }
}

FP4_TARGET inline DrawPlan plan_draws(const QuantPlan& p) {
  DrawPlan d;
  d.wanted = is_stochastic(p.q.rounding);
  d.bits = p.q.random_bits;
  d.per_block = 128 / d.bits;
  d.aligned = p.cols % d.per_block == 0;
  return d;
}

}  // namespace fp4::FP4_ISA
