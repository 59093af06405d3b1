// AVX2 quantises all operands sixteen rows at a time: runs along a row (runs_avx512.h) live on roundings of single
// instructions and tables of 128 bytes.
#pragma once

#include "src/fast/isa_avx2.h"
// After the instruction set it is compiled for:
#include "src/fast/quantize_body.h"

namespace fp4::avx2 {

inline int64_t flat_columns(const QuantPlan&) { return 0; }
inline bool has_row_segments(const Quantization&) { return false; }
inline bool encode_row_segments(const Quantization&, const Block&) { return false; }
inline bool quantize_square_panels(const Quantization&, int64_t) { return false; }
inline int64_t quantize_flat(const Quantization&, int) { return 0; }

struct Sweep {};  // panel_sweep_avx512.h
inline Sweep plan_sweep(const Quantization&) { return {}; }
inline bool sweep(const Quantization&, const Sweep&, int64_t) { return false; }

}  // namespace fp4::avx2
