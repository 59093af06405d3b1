// Blocks that lie along rows, for every spec that runs_avx512.h does not know: scales in lanes (lane = block), elements
// as they lie. 1 x B blocks go sixteen at a time, blocks of 16 x 16 and 32 x 32 sixteen beside each other.
#pragma once

#include "src/cpu/quantize/flat_operand.h"
#include "src/cpu/quantize/fold_avx512.h"
#include "src/cpu/quantize/line_maximum_body.h"
#include "src/cpu/quantize/panel_trials_avx512.h"
#include "src/cpu/quantize/quantize_body.h"
#include "src/cpu/quantize/run_hadamard_body.h"
#include "src/cpu/quantize/segment_codes_avx512.h"

namespace fp4::avx512 {

// Bits of the largest magnitudes of sixteen adjacent blocks of 8.
FP4_SIMD I maxima_of_eight(const float* x) {
  alignas(64) uint32_t maxima[panel_rows];
  for (int v = 0; v < 8; ++v) {
    __m512i m = _mm512_and_si512(_mm512_loadu_si512(x + v * panel_rows), _mm512_set1_epi32(0x7FFFFFFF));
    m = _mm512_max_epu32(m, _mm512_shuffle_i64x2(m, m, _MM_SHUFFLE(2, 3, 0, 1)));
    m = _mm512_max_epu32(m, _mm512_shuffle_epi32(m, _MM_PERM_BADC));
    m = _mm512_max_epu32(m, _mm512_shuffle_epi32(m, _MM_PERM_CDAB));
    const __m512i both = _mm512_maskz_compress_epi32(0x0101, m);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(maxima + 2 * v), _mm512_castsi512_si128(both));
  }
  return load(maxima);
}

FP4_TARGET __attribute__((noinline)) inline void adjacent_maxima(const float* x, int block, uint32_t* out) {
  switch (block) {
    case 8: return store(out, maxima_of_eight(x));
    case 16: return store(out, block_maxima<1>(x, 16));
    case 32: return store(out, block_maxima<2>(x, 32));
    case 64: return store(out, block_maxima<4>(x, 64));
    default: return store(out, block_maxima<8>(x, 128));
  }
}

// outer128: the factors of sixteen adjacent blocks, lane = block; their elements are finite.
FP4_SIMD LaneFactor adjacent_outer_factor(const QuantPlan& p, I amax, int block) {
  for (int d = 1; d * block < outer_scale_width; d *= 2) {
    amax = larger(amax, I{_mm512_permutexvar_epi32((lane_numbers() ^ all(d)).v, amax.v)});
  }
  return outer_factor(p, amax);
}

// Scales of sixteen adjacent blocks, the first one of which is a row of the flat operand.
FP4_TARGET inline LaneScales adjacent_scales(const Quantization& z, const float* x, int64_t row, I amax,
                                             const LaneFactor& t) {
  const QuantPlan& p = *z.plan;
  Block b;
  b.row0 = row;
  b.rows = panel_rows;
  b.k0 = 0;
  b.n = p.spec.block.size;
  b.factor = t;
  b.amax = amax;
  if (p.scale_path == ScalePath::power || p.scale_path == ScalePath::quotient) {
    b.scales = scales_from_maxima(p, z.scale, amax, t, scale_draws(p, b));
    if (!any(b.scales.rare)) return b.scales;
  }
  alignas(64) float columns[128][panel_rows];
  alignas(64) float scratch[128][panel_rows];
  load_row_major(x, b.n, panel_rows, b.n, columns);
  b.x = columns;
  b.u = scratch;
  find_scales(z, b);
  return b.scales;
}

FP4_SIMD void store_adjacent_scales(Quantized& q, int64_t first, const LaneScales& s, int count) {
  const M those = first_lanes(count);
  if (is_real(q.spec.scale)) return store(q.real_scales.data() + first, s.stored, those);
  _mm_mask_storeu_epi8(q.scales.data() + first, those.v, _mm512_cvtepi32_epi8(s.code.v));
}

// Scales of the blocks of n adjacent elements from `first` on, and what their payloads are formed by. The maxima of all
// come first, then all scales: each is a long chain. false: they are still to be found.
FP4_TARGET inline bool segment_scales(const Quantization& z, const float* x, int64_t first, int n,
                                      SegmentFactors& factors) {
  const QuantPlan& p = *z.plan;
  const int block = p.spec.block.size;
  const int batch = panel_rows * block;
  const bool outer = p.q.tensor_scale == TensorScale::outer128;
  LaneFactor t = {all(p.factor.g), all(p.factor.te_multiplier)};
  alignas(64) uint32_t maxima[longest_segment / 8];
  for (int i = 0; i < n; i += batch) adjacent_maxima(x + i, block, maxima + i / block);
  for (int i = 0; i < n; i += batch) {
    const I amax = load(maxima + i / block);
    if (any(amax >= all(0x7F800000))) return false;
    if (outer) t = adjacent_outer_factor(p, amax, block);
    const LaneScales scales = adjacent_scales(z, x + i, (first + i) / p.cols, amax, t);
    if (!segment_factors(p, i / block, amax, scales, t, factors)) return false;
    store_adjacent_scales(*z.stored, (first + i) / block, scales, panel_rows);
    if (!outer) continue;
    alignas(64) float g[panel_rows];
    store(g, t.g);
    for (int k = 0; k < batch; k += outer_scale_width) {
      z.stored->tensor_scale[static_cast<size_t>((first + i + k) / outer_scale_width)] = g[k / block];
    }
  }
  return true;
}

// Codes and scales of n elements of a flat operand from `first` on. false: they are still to be found.
FP4_TARGET inline bool quantize_segment(const Quantization& z, const SegmentPlan& s, const RunHadamard& h,
                                        int64_t first, int n) {
  const QuantPlan& p = *z.plan;
  const float* x = p.x.data + first;
  alignas(64) float transformed[longest_segment];
  if (h.size > 0) {
    transform_batch(h, x, n, transformed);
    x = transformed;
  }
  SegmentFactors factors;
  factors.first[0] = factors.first[1] = 1.0f;
  const bool found = p.q.has_scale ? segment_scales(z, x, first, n, factors) : largest_bits(x, n) < float_infinity_bits;
  if (!found) return false;
  uint8_t* codes = z.stored->codes.data() + first * s.code_width / 8;
  return encode_segment(z, s, factors, x, n, p.row_offset * p.cols + first, codes);
}

// Panels [first, last) of a flat operand, which are full.
FP4_TARGET inline void quantize_by_segments(const Quantization& z, int64_t first, int64_t last) {
  const QuantPlan& p = *z.plan;
  const SegmentPlan s = segment_plan(z);
  const RunHadamard h = run_hadamard(p);
  const int64_t length = panel_rows * p.cols;
  const int64_t panels = larger<int64_t>(usual_segment / length, 1);  // of a segment
  for (int64_t panel = first; panel < last; panel += panels) {
    const int64_t end = smaller(panel + panels, last);
    if (quantize_segment(z, s, h, panel * length, static_cast<int>((end - panel) * length))) continue;
    for (int64_t i = panel; i < end; ++i) quantize_vector_panel(z, i);
  }
}

inline bool starts_a_philox_block(const QuantPlan& p, int64_t position) {
  return !is_stochastic(p.q.rounding) || position * p.q.random_bits % 128 == 0;
}

// Whether payloads and codes of adjacent elements can be formed at all.
inline bool has_segment_codes(const QuantPlan& p) {
  if (p.payload_path == PayloadPath::scalar) return false;
  return !p.has_wide_draws || has_estimates(p, format_lanes(p.q.element));
}

// Columns of the flat operand that goes by segments; 0: it does not. Draws of scales are those of its rows.
inline int64_t segment_width(const QuantPlan& p) {
  const bool outer = p.q.tensor_scale == TensorScale::outer128;
  const int block = p.q.has_scale ? p.spec.block.size : 32;
  if (!has_segment_codes(p) || (p.q.has_scale && p.spec.block.kind != BlockKind::vector)) return 0;
  const int64_t width = cpu::flat_width(p, outer ? outer_scale_width : block);
  if (width > block && p.q.has_scale && is_stochastic(p.q.scale_rounding)) return 0;
  return starts_a_philox_block(p, p.row_offset * p.cols) ? width : 0;
}

// Whether blocks of 16 x 16 or 32 x 32 go by segments of their rows.
inline bool has_square_segments(const Quantization& z) {
  const QuantPlan& p = *z.plan;
  const int size = p.spec.block.size;
  if (z.stored == nullptr || p.spec.block.kind != BlockKind::square || (size != 16 && size != 32)) return false;
  if (p.x.col_stride != 1 || p.hadamard.size > 0 || p.cols % size != 0) return false;
  if (p.scale_path != ScalePath::power && p.scale_path != ScalePath::quotient) return false;
  return has_segment_codes(p) && starts_a_philox_block(p, p.cols);
}

// Bits of the largest magnitudes of up to sixteen square blocks beside each other, lane = block.
template <int width>
FP4_SIMD I square_maxima(const float* x, int64_t stride, int blocks) {
  constexpr int size = width * panel_rows;
  alignas(64) float largest[panel_rows * size] = {};
  for (int v = 0; v < blocks * width; ++v) {
    I m = all(0);
    for (int row = 0; row < size; ++row) {
      m = larger_unsigned(m, bits(load(x + row * stride + v * panel_rows)) & all(0x7FFFFFFF));
    }
    store(largest + v * panel_rows, as_float(m));
  }
  return block_maxima<width>(largest, size);
}

// One row of square blocks, from row `row0` of the operand on. false: it is still to be quantised.
template <int width>
FP4_TARGET bool quantize_square_row(const Quantization& z, const SegmentPlan& s, int64_t row0) {
  constexpr int size = width * panel_rows;
  const QuantPlan& p = *z.plan;
  const LaneFactor t = {all(p.factor.g), all(p.factor.te_multiplier)};
  const int64_t row_bytes = z.stored->code_row_bytes();
  const int64_t first_scale = row0 / size * p.geometry.scale_cols;
  for (int64_t k = 0; k < p.cols; k += panel_rows * size) {
    const int blocks = static_cast<int>(smaller<int64_t>(panel_rows, (p.cols - k) / size));
    const float* x = p.x.data + row0 * p.x.row_stride + k;
    const I amax = square_maxima<width>(x, p.x.row_stride, blocks);
    if (any(amax >= all(0x7F800000))) return false;
    alignas(64) uint32_t draws[panel_rows] = {};
    if (is_stochastic(p.q.scale_rounding)) {
      const int64_t first = (p.row_offset + row0) / size * p.geometry.scale_cols + k / size;
      fill_single_draws(p.place.scale_rounding(), first, 1, p.q.random_bits, draws);
    }
    const LaneScales scales = scales_from_maxima(p, z.scale, amax, t, load(draws));
    SegmentFactors factors;
    if (any(scales.rare) || !segment_factors(p, 0, amax, scales, t, factors)) return false;
    store_adjacent_scales(*z.stored, first_scale + k / size, scales, blocks);
    for (int64_t row = row0; row < row0 + size; ++row) {
      uint8_t* codes = z.stored->codes.data() + row * row_bytes + k * s.code_width / 8;
      const int64_t position = (p.row_offset + row) * p.cols + k;
      if (!encode_segment(z, s, factors, x + (row - row0) * p.x.row_stride, blocks * size, position, codes))
        return false;
    }
  }
  return true;
}

// Panels of square blocks, a whole row of them. false: they are still to be quantised.
FP4_TARGET inline bool quantize_square_panels(const Quantization& z, int64_t first) {
  const int size = z.plan->spec.block.size;
  if (!has_square_segments(z) || first * panel_rows + size > z.plan->rows) return false;
  const SegmentPlan s = segment_plan(z);
  return size == 16 ? quantize_square_row<1>(z, s, first * panel_rows)
                    : quantize_square_row<2>(z, s, first * panel_rows);
}

// Whether panels whose rows have one scale each, of a row or of the tensor, go by segments of their rows.
inline bool has_row_segments(const Quantization& z) {
  const QuantPlan& p = *z.plan;
  if (z.stored == nullptr || (p.spec.block.kind != BlockKind::row && p.spec.block.kind != BlockKind::tensor))
    return false;
  if (p.x.col_stride != 1 || p.hadamard.size > 0 || p.cols == 0 || p.cols % panel_rows != 0) return false;
  return has_segment_codes(p) && starts_a_philox_block(p, p.cols);
}

// Codes of the rows of a panel; b has their maxima and scales. false: they are still to be formed.
FP4_TARGET inline bool encode_row_segments(const Quantization& z, const Block& b) {
  const QuantPlan& p = *z.plan;
  SegmentPlan s = segment_plan(z);
  SegmentFactors factors;
  if (!segment_factors(p, 0, b.amax, b.scales, b.factor, factors)) return false;
  const float* x = p.x.data + b.row0 * p.x.row_stride;
  uint8_t* codes = z.stored->codes.data() + b.row0 * z.stored->code_row_bytes();
  const int64_t position = (p.row_offset + b.row0) * p.cols;
  const bool adjacent = p.x.row_stride == p.cols && (p.cols & (p.cols - 1)) == 0;
  if (adjacent && panel_rows * p.cols <= longest_segment) {  // rows as blocks
    s.block_log2 = __builtin_ctz(static_cast<unsigned>(p.cols));
    return encode_segment(z, s, factors, x, static_cast<int>(b.rows * p.cols), position, codes);
  }
  for (int row = 0; row < b.rows; ++row) {
    factors.first[0] = factors.first[row];
    factors.second[0] = factors.second[row];
    for (int64_t k = 0; k < p.cols; k += longest_segment) {
      const auto n = static_cast<int>(smaller<int64_t>(longest_segment, p.cols - k));
      uint8_t* out = codes + row * z.stored->code_row_bytes() + k * s.code_width / 8;
      if (!encode_segment(z, s, factors, x + row * p.x.row_stride + k, n, position + row * p.cols + k, out))
        return false;
    }
  }
  return true;
}

}  // namespace fp4::avx512
