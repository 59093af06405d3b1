// AVX2 brings all operands into lanes first: what goes along the row lives on roundings of single instructions and on
// tables of 128 bytes.
#pragma once

#include "src/cpu/quantize/blocks_body.h"
#include "src/cpu/simd/avx2.h"

namespace fp4::avx2 {

inline constexpr int row_block_width = 0;
FP4_SIMD I row_maxima(const float*, int64_t) { return all(0); }
FP4_SIMD I row_table_bytes(const TableConstants&, const float*, int64_t, F, int8_t*) { return all(0); }

inline int64_t flat_columns(const QuantPlan&) { return 0; }
inline int64_t quantize_flat(const Quantization&, int) { return 0; }

struct Sweep {};
inline Sweep plan_sweep(const Quantization&) { return {}; }
inline bool sweep(const Quantization&, const Sweep&, int64_t) { return false; }

}  // namespace fp4::avx2
