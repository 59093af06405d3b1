// Codes of sixteen columns at a time (column_codes_avx512.h) where the instruction set has them.
#pragma once

#include "src/cpu/quantize/blocks_body.h"
#include "src/cpu/simd/lanes.h"

#if FP4_CPU == 512
#include "src/cpu/quantize/column_codes_avx512.h"
#else
namespace fp4::FP4_ISA {

struct ColumnDraws {};
struct ColumnCodes {
  uint32_t (*encode)(const Quantization&, const ColumnCodes&, const Block*, int, ColumnDraws&, int8_t*, I*) = nullptr;
  bool has_squares = false;
};
inline ColumnCodes plan_columns(const Quantization&) { return {}; }

}  // namespace fp4::FP4_ISA
#endif
