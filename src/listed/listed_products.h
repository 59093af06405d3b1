// Blocked products of elements that no vector backend knows, in fp64: dots and sums of eight outputs at a time, each
// with a bound on its error. Where both ends of the bound round to one fp32 number, that is the core's; else the core
// adds the block.
//   dot   products of two elements are exact in fp64. Where the bits of both lists, of the block's length and of the
//         scales' product are at most 53 so is the dot; else, as of int4_6 times itself, a dot of n errs
//         by less than (n^2 + n) * 2^-53 of the largest product, its scaling included
//   sum   fp64 rounds to odd by what TwoSum says it loses, so that fp32 rounds the sum of an exact dot once
// Dots that with their scales fit 24 bits, as mx9's, stay in fp32: an FMA rounds once a block.
#pragma once

#include "fp4/backend.h"

namespace fp4 {

/// fp32_block under block scales.
bool multiplies_listed(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options);

/// False, and nothing written, where products of scales leave the normal numbers of fp32.
bool multiply_listed(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c, int64_t c_stride);

}  // namespace fp4
