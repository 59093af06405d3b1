// Rows of memory as they lie, without the detour over sixteen rows in sixteen lanes: Hadamards of contiguous rows, and
// FP4 codes back to floats.
#pragma once

#include "src/fast/run_hadamard_avx512.h"
// After the instruction set it is compiled for:
#include "src/fast/stored_body.h"

namespace fp4::avx512 {

// hadamard_to for rows of whole tiles. false: the tiles have other strides or sizes.
FP4_TARGET inline bool hadamard_rows(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse,
                                     float* y) {
  if (x.col_stride != 1 || h.size < panel_rows || x.cols % h.size != 0) return false;
  QuantPlan p;
  p.hadamard = h;
  p.signs = hadamard_signs(h, place);
  RunHadamard run = run_hadamard(p);
  alignas(64) uint32_t late_signs[256] = {};  // the inverse flips them at its end
  if (inverse) {
    std::memcpy(late_signs, run.signs, sizeof(uint32_t) * static_cast<size_t>(h.size));
    std::memset(run.signs, 0, sizeof run.signs);
    if (h.normalise != HadamardNormalise::sqrt) run.factor = 1.0f / static_cast<float>(h.size);
  }
  const F canonical = as_float(all(canonical_nan_bits));
  for (int64_t row = 0; row < x.rows; ++row) {
    float* out = y + row * x.cols;
    transform_batch(run, x.data + row * x.row_stride, static_cast<int>(x.cols), out);
    for (int64_t k = 0; k < x.cols; k += panel_rows) {
      const F v = as_float(bits(load(out + k)) ^ load(late_signs + k % h.size));
      store(out + k, select(is_nan(v), canonical, v));
    }
  }
  return true;
}

// The codes of sixteen neighbours, two in a byte, the lower half first.
FP4_SIMD I nibbles_of(const uint8_t* p) {
  const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m512i both = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
  return {_mm512_and_si512(both, _mm512_set1_epi32(0xF))};
}

// dequantize_to for FP4 in 1 x B blocks with stored 8-bit scales. false: other formats.
FP4_TARGET inline bool dequantize_rows(const Quantized& q, float* out) {
  const bool known = q.is_packed() && q.spec.has_scale() && !is_real(q.spec.scale) &&
                     q.spec.block.kind == BlockKind::vector && q.spec.block.size % panel_rows == 0 &&
                     q.cols % panel_rows == 0 && q.tensor_scale.size() <= 1 && q.spec.prescale == 1.0f;
  if (!known) return false;
  DecodeTables t;
  fill_tables(resolve(q.spec), t);
  const F g = stored_factors(q, 0, 1, 0);
  const int64_t block = q.spec.block.size;
  for (int64_t row = 0; row < q.rows; ++row) {
    const uint8_t* codes = q.codes.data() + row * q.code_row_bytes();
    const uint8_t* scales = q.scales.data() + row * q.geometry.scale_cols;
    for (int64_t k0 = 0; k0 < q.cols; k0 += block) {
      const F s = all(t.scale[scales[k0 / block]]);
      for (int64_t k = k0; k < smaller(k0 + block, q.cols); k += panel_rows) {
        const F element = look_up_16(t.element, nibbles_of(codes + k / 2));
        store(out + row * q.cols + k, stored_value(1.0f, element, s, g));
      }
    }
  }
  return true;
}

}  // namespace fp4::avx512
