// What happens at the edges: all-zero blocks, scales that round to zero, negative zeros, infinities and NaN, and rows
// that do not fill their last block. Small axes of words only; block.h acts on them.
#pragma once

#include <cstdint>

#include "fp4/axis.h"

namespace fp4 {

enum class ZeroBlock : uint8_t { one, limit };
enum class ZeroScale : uint8_t { smallest, one, keep, eighth };
enum class NegativeZero : uint8_t { keep, drop, of_rounding, zeros };
enum class Nonfinite : uint8_t { block_nan, saturate, max, max_signed, tensor_nan };
enum class Ragged : uint8_t { pad, refuse };
enum class ScaleOverflow : uint8_t { saturate, nan };
enum class Subnormals : uint8_t { keep, flush };

inline constexpr AxisRow<ZeroBlock> zero_block_table[] = {
    {ZeroBlock::one, "one", "an all-zero block has scale 1", "definition"},
    {ZeroBlock::limit, "limit", "the code the rule tends to as amax -> 0", "torchao, Transformer Engine"},
};
inline constexpr AxisRow<ZeroScale> zero_scale_table[] = {
    {ZeroScale::smallest, "smallest", "a scale that rounds to zero becomes the smallest positive one", "definition"},
    {ZeroScale::one, "one", "it becomes 1", "2609.02846"},
    {ZeroScale::keep, "keep", "it stays zero: the block decodes to zeros", "Transformer Engine"},
    {ZeroScale::eighth, "eighth", "it becomes 1/8", "compressed-tensors"},
};
inline constexpr AxisRow<NegativeZero> negative_zero_table[] = {
    {NegativeZero::keep, "keep", "negatives that round to zero give -0", "OCP MX 1.0"},
    {NegativeZero::drop, "drop", "they give +0", "ggml; PTX cvt .pzo"},
    {NegativeZero::of_rounding, "of_rounding", "they give -0, an input -0 gives +0",
     "code that takes the sign by x < 0: Model-Optimizer, compressed-tensors, vLLM's emulation"},
    {NegativeZero::zeros, "zeros", "they give -0, and so does an input 0 of either sign", "Model-Optimizer MXFP4"},
};
inline constexpr AxisRow<Nonfinite> nonfinite_table[] = {
    {Nonfinite::block_nan, "block_nan", "infinity or NaN makes the block's scale NaN", "OCP MX 1.0"},
    {Nonfinite::saturate, "saturate", "infinity becomes the largest code, NaN code 0", "saturating kernels"},
    {Nonfinite::max, "max", "infinity becomes the largest code with its sign, NaN the largest code",
     "PTX cvt.satfinite"},
    {Nonfinite::max_signed, "max_signed", "infinity and NaN become the largest code with their sign",
     "AMD v_cvt_scalef32"},
    {Nonfinite::tensor_nan, "tensor_nan",
     "as block_nan; a NaN makes the tensor scale NaN, too, and so every scale under it",
     "TransformerEngine's reference, torchao: the amax of a tensor with a NaN is NaN"},
};
inline constexpr AxisRow<Ragged> ragged_table[] = {
    {Ragged::pad, "pad", "K is padded with zeros to a multiple of the block", "definition"},
    {Ragged::refuse, "refuse", "K must be a multiple of the block", "strict kernels"},
};
inline constexpr AxisRow<ScaleOverflow> scale_overflow_table[] = {
    {ScaleOverflow::saturate, "saturate", "a scale beyond the largest one becomes that", "PTX cvt.satfinite"},
    {ScaleOverflow::nan, "nan", "it becomes NaN, where the format has one",
     "PTX cvt to ue5m3x2 and e4m3x2 without satfinite"},
};
inline constexpr AxisRow<Subnormals> subnormals_table[] = {
    {Subnormals::keep, "keep", "fp32 subnormals count", "IEEE 754"},
    {Subnormals::flush, "flush", "inputs below 2^-126 are zeros of their sign, for maxima, too",
     "PTX cvt .scaled::n1::ue8m0, Tenstorrent"},
};
static_assert(ids_are_indices(scale_overflow_table) && ids_are_indices(subnormals_table));
static_assert(ids_are_indices(zero_block_table) && ids_are_indices(zero_scale_table));
static_assert(ids_are_indices(negative_zero_table) && ids_are_indices(nonfinite_table) &&
              ids_are_indices(ragged_table));

}  // namespace fp4
