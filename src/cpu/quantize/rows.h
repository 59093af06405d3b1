// Contiguous operands along their rows to the layout of files (runs_avx512.h) where the instruction set has roundings
// of single instructions and tables of 128 bytes; elsewhere they go through the lanes.
#pragma once

#include "src/cpu/quantize/blocks_body.h"
#include "src/cpu/simd/lanes.h"

#if FP4_CPU == 512
#include "src/cpu/quantize/runs_avx512.h"
#else
namespace fp4::FP4_ISA {

inline const char* declines_rows(const QuantPlan&) { return "this instruction set quantises in lanes"; }
inline int64_t flat_columns(const QuantPlan&) { return 0; }
inline int64_t quantize_flat(const Quantization&, int) { return 0; }

}  // namespace fp4::FP4_ISA
#endif
