// Runs of sixteen adjacent 1 x B blocks of a row, in the layout of the files: maxima and codes are formed along the
// row, without transposes, and the scale rule runs once for all sixteen (lane = block). What needs more than fp32 takes
// the way of the lanes (lanes_body.h).
#pragma once

#include "src/cpu/quantize/engine_table.h"
#include "src/cpu/quantize/flat_operand.h"
#include "src/cpu/quantize/lanes_body.h"
#include "src/cpu/quantize/run_draws_avx512.h"
#include "src/cpu/quantize/run_fetch_avx512.h"

namespace fp4::avx512 {

// A run's codes; a block has `width` vectors. `ahead` is for the run. false: some are in doubt.
template <RunKind kind, RunCodes codes, int width>
FP4_SIMD bool encode_run(const RunPlan& r, const RunFactors& f, const float* x, const uint8_t* draws,
                         const Ahead& ahead, uint8_t* out) {
  if constexpr (codes == RunCodes::bytes) {
#pragma GCC unroll 8
    for (int v = 0; v < panel_rows * width; v += 4) {
      fetch_lines<4>(ahead, v);
      store_byte_codes<width>(r, f, x + v * panel_rows, v, out + v * panel_rows);
    }
    return true;
  }
  bool sure = true;
#pragma GCC unroll 4
  for (int first = 0; first < panel_rows * width; first += 8) {
    fetch_lines<8>(ahead, first);
    I halves[2];
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; ++odd) {
      const int v = first + odd;
      if constexpr (codes == RunCodes::draws) {
        halves[odd] =
            drawn_codes<kind, width>(r, f, x + v * panel_rows, v, draws + (first + 4 * odd) * panel_rows, sure);
      } else {
        halves[odd] = table_codes<kind, width>(r, f, x + v * panel_rows, v, sure);
      }
    }
    store_codes(halves[0], halves[1], out + first * 8);
  }
  return sure;
}

// Bytes of codes that are not to stay in a cache.
inline constexpr size_t streamed_size = size_t{1} << 22;

template <RunCodes codes>
inline constexpr int batch_bytes = codes == RunCodes::bytes ? batch_length : batch_length / 2;

template <int width>
struct BatchMaxima {
  I amax[2 / width];
};

template <int width>
FP4_SIMD BatchMaxima<width> batch_maxima(const float* x) {
  BatchMaxima<width> m;
#pragma GCC unroll 2
  for (int i = 0; i < 2 / width; ++i) m.amax[i] = block_maxima<width>(x + i * 256, width * panel_rows);
  return m;
}

template <int width>
struct Batch {
  RunFactors factors[2 / width];
  bool usable;
  alignas(64) uint8_t draws[batch_length];
};

// From the maxima of a batch: its scales, stored, and its draws.
template <RunCodes codes, int width>
FP4_SIMD void prepare_batch(const Quantization& z, const RunPlan& r, const LaneFactor& t, const BatchMaxima<width>& m,
                            int64_t index, Batch<width>& b) {
  const QuantPlan& p = *z.plan;
  b.usable = true;
#pragma GCC unroll 2
  for (int i = 0; i < 2 / width; ++i) {
    const LaneScales s = scales_from_maxima(p, z.scale, m.amax[i], t);
    b.usable =
        b.usable && !any((m.amax[i] >= all(0x7F800000)) | s.rare) && find_factors(p, r, m.amax[i], s, t, b.factors[i]);
    uint8_t* scale_codes = z.stored->scales.data() + (index * (2 / width) + i) * panel_rows;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(scale_codes), _mm512_cvtepi32_epi8(s.code.v));
  }
  if constexpr (codes == RunCodes::draws) {
    fill_run_draws(r.keys, static_cast<uint32_t>(p.row_offset * p.cols / 16 + index * 32), b.draws);
  }
}

template <RunKind kind, RunCodes codes, int width>
FP4_SIMD bool encode_batch(const RunPlan& r, const Batch<width>& b, const float* x, const Ahead& ahead, uint8_t* out) {
  bool sure = true;
#pragma GCC unroll 2
  for (int i = 0; i < 2 / width; ++i) {
    sure &=
        encode_run<kind, codes, width>(r, b.factors[i], x + i * 256, b.draws + i * 256,
                                       {ahead.near + i * 256, ahead.far + i * 256}, out + i * (batch_bytes<codes> / 2));
  }
  return sure;
}

// Three batches in turn: what is encoded, what has scales, what has maxima.
template <int width>
struct Ring {
  Batch<width> batches[2];
  alignas(64) float elements[3][batch_length];  // after a Hadamard
};

// A batch as it is quantised.
template <int width>
FP4_SIMD const float* elements_of(const QuantPlan& p, const RunPlan& r, int64_t index, Ring<width>& ring) {
  const float* x = p.x.data + index * batch_length;
  if (r.hadamard.size == 0) return x;
  transform_batch(r.hadamard, x, batch_length, ring.elements[index % 3]);
  return ring.elements[index % 3];
}

// Panels [first, last) of a flat operand, which are full. While a batch is encoded the scales of the next one and the
// maxima of the one after that are on their way: either would keep the processor waiting.
template <RunKind kind, RunCodes codes, int width>
FP4_TARGET void quantize_runs(const Quantization& z, const RunPlan& r, int64_t first, int64_t last) {
  const QuantPlan& p = *z.plan;
  const LaneFactor t = {all(p.factor.g), all(p.factor.te_multiplier)};
  const int64_t batches = p.cols * panel_rows / batch_length;  // of a panel
  const int64_t end = last * batches;
  const bool streams = z.stored->codes.size() >= streamed_size;
  StreamedCodes<batch_bytes<codes>> streamed(z.stored->codes.data());
  Ring<width> ring;
  int64_t at = first * batches;
  const float* x = elements_of(p, r, at, ring);
  prepare_batch<codes>(z, r, t, batch_maxima<width>(x), at, ring.batches[at % 2]);
  const float* next = elements_of(p, r, smaller(at + 1, end - 1), ring);
  BatchMaxima<width> maxima = batch_maxima<width>(next);
  int64_t left_to_lanes = 0;
  for (int64_t panel = first; panel < last; ++panel) {
    bool done = true;
    for (; at < (panel + 1) * batches; ++at) {
      if (at + 1 < end) prepare_batch<codes>(z, r, t, maxima, at + 1, ring.batches[(at + 1) % 2]);
      const int64_t second = smaller(at + 2, end - 1);
      const float* after_next = second == at + 1 ? next : elements_of(p, r, second, ring);
      maxima = batch_maxima<width>(after_next);
      const Batch<width>& b = ring.batches[at % 2];
      done = done && b.usable;
      if (done) {
        uint8_t* out = z.stored->codes.data() + at * batch_bytes<codes>;
        done = encode_batch<kind, codes, width>(r, b, x, ahead_of(p.x.data, at), streams ? streamed.next(out) : out);
      }
      x = next;
      next = after_next;
    }
    if (done) continue;
    if (streams) streamed.close();
    quantize_lanes(z, plan_columns(z), panel);
    ++left_to_lanes;
  }
  cpu::quantize_uses.count(cpu::QuantizeEngine::rows, last - first, last - first - left_to_lanes);
  cpu::quantize_uses.count(cpu::QuantizeEngine::lanes, left_to_lanes, left_to_lanes);
  if (!streams) return;
  streamed.close();
  _mm_sfence();
}

using RunLoop = void (*)(const Quantization&, const RunPlan&, int64_t, int64_t);

template <RunKind kind, RunCodes codes>
RunLoop run_loop(int block) {
  return block == 16 ? quantize_runs<kind, codes, 1> : quantize_runs<kind, codes, 2>;
}

inline RunLoop run_loop(const RunPlan& r, int block) {
  if (r.codes == RunCodes::bytes) return run_loop<RunKind::power, RunCodes::bytes>(block);
  const bool draws = r.codes == RunCodes::draws;
  switch (r.kind) {
    case RunKind::power:
      return draws ? run_loop<RunKind::power, RunCodes::draws>(block)
                   : run_loop<RunKind::power, RunCodes::table>(block);
    case RunKind::product:
      return draws ? run_loop<RunKind::product, RunCodes::draws>(block)
                   : run_loop<RunKind::product, RunCodes::table>(block);
    case RunKind::quotient:
      return draws ? run_loop<RunKind::quotient, RunCodes::draws>(block)
                   : run_loop<RunKind::quotient, RunCodes::table>(block);
    case RunKind::none: break;
  }
  return nullptr;
}

// Whether payloads are rounded to nearest even in formats of up to eight bits with mantissa and zero.
inline bool has_byte_codes(const QuantPlan& p) {
  return p.code_path == CodePath::generic && p.q.rounding == Rounding::nearest_even && p.q.prescale == 1.0f &&
         p.payload_path == PayloadPath::power && p.q.element.has_zero && p.q.element.mantissa_bits > 0 &&
         p.q.element.code_bits() > 4 && p.q.element.code_bits() <= 8;
}

inline RunCodes run_codes(const QuantPlan& p) {
  if (p.code_path == CodePath::table) return RunCodes::table;
  return has_byte_codes(p) ? RunCodes::bytes : RunCodes::draws;
}

inline RunKind run_kind(const QuantPlan& p) {
  const bool known = p.code_path == CodePath::table || draws_for_runs(p) || has_byte_codes(p);
  const bool scales = p.scale_path == ScalePath::power || p.scale_path == ScalePath::quotient;
  return known && scales && !is_stochastic(p.q.scale_rounding) ? payload_kind(p) : RunKind::none;
}

// Why an operand does not go along its rows; nullptr where it does.
inline const char* declines_rows(const QuantPlan& p) {
  if (run_kind(p) == RunKind::none) return "a block, scale rule, rounding or arithmetic that rows do not know";
  if (p.spec.tensor_scale_cols(p.cols) > 0) return "tensor factors of rows or of 128 columns";
  if (p.prepares) return "elements that change as they are read";
  return cpu::flat_width(p, 32) > 0 ? nullptr : "rows apart in memory, or that end within a block";
}

// Columns of the short rows of a flat operand; 0 where the operand has to keep its own.
inline int64_t flat_columns(const QuantPlan& p) { return declines_rows(p) == nullptr ? cpu::flat_width(p, 32) : 0; }

FP4_TARGET inline RunPlan run_plan(const QuantPlan& p) {
  RunPlan r;
  r.kind = run_kind(p);
  r.codes = run_codes(p);
  r.hadamard = run_hadamard(p);
  if (r.codes == RunCodes::draws) r.keys = run_keys(p.place);
  r.drops = p.q.negative_zero == NegativeZero::drop;
  r.steps = r.codes == RunCodes::table ? p.steps : 1.0f;
  r.end = 6.0f / p.q.prescale;
  r.format = format_lanes(p.q.element);
  r.code_bits = p.q.element.code_bits();
  if (r.codes != RunCodes::table) return r;
  int8_t code_of[16] = {};
  for (uint32_t code = 0; code <= p.q.element.largest_code; ++code) {
    code_of[decode_fixed(p.q.element, code)] = static_cast<int8_t>(code);
  }
  alignas(64) int8_t codes[128];
  for (int i = 0; i < 128; ++i) {
    const int value = p.table[i];
    const bool negative = r.drops ? value < 0 : i >= 64;
    codes[i] = static_cast<int8_t>(code_of[value < 0 ? -value : value] + (negative ? 8 : 0));
  }
  r.table = load_table(codes);
  return r;
}

// The full panels of a flat operand; returns how many those are.
inline int64_t quantize_flat(const Quantization& z, int threads) {
  const RunPlan r = run_plan(*z.plan);
  const RunLoop loop = run_loop(r, z.plan->spec.block.size);
  return cpu::share_panels(*z.plan, threads, [&](int64_t first, int64_t last) { loop(z, r, first, last); });
}

}  // namespace fp4::avx512
