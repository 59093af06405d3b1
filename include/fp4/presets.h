// Named QuantSpecs: the formats of the design space and, for disputed policies, one preset per library. Where a library
// is wrong by accident (a float log2 one high just below powers of two) the preset follows its documented rule, and the
// doc says so.
#pragma once

#include "fp4/spec.h"

namespace fp4 {

struct Preset {
  const char* name;
  const char* doc;
  const char* source;
  QuantSpec spec;
};

// clang-format off
inline constexpr BlockShape block_of_16 = {BlockKind::vector, 16};
inline constexpr QuantSpec mxfp4_spec = {};
inline constexpr QuantSpec nvfp4_spec = {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax,
                                         .tensor_scale = TensorScale::current};

inline constexpr Preset preset_table[] = {
    {"mxfp4", "e2m1, e8m0 per 32, floor", "OCP MX 1.0", mxfp4_spec},
    {"nvfp4", "e2m1, ue4m3 per 16, fp32 tensor scale", "NVIDIA NVFP4, 2509.25149", nvfp4_spec},
    {"ue5m3fp4", "e2m1, ue5m3 per 16, no tensor scale", "2509.17791",
     {.scale = Scale::ue5m3, .block = block_of_16, .scale_rule = ScaleRule::amax}},
    {"mxfp8", "e4m3, e8m0 per 32, rceil", "OCP MX 1.0; 2506.08027 (rceil)", {.element = Element::e4m3, .scale_rule = ScaleRule::rceil}},
    {"mxfp6", "same as mxfp6_e2m3", "OCP MX 1.0", {.element = Element::e2m3}},
    {"mxfp6_e2m3", "e2m3, e8m0 per 32, floor", "OCP MX 1.0", {.element = Element::e2m3}},
    {"mxfp6_e3m2", "e3m2, e8m0 per 32, floor", "OCP MX 1.0", {.element = Element::e3m2}},
    {"bf16", "bfloat16, no scale", "bfloat16", {.element = Element::bf16, .scale = Scale::none}},
    {"fp16", "IEEE half, no scale", "IEEE 754", {.element = Element::fp16, .scale = Scale::none}},
    {"fp32", "IEEE single, no scale", "IEEE 754", {.element = Element::fp32, .scale = Scale::none}},
    {"ocp_mxfp4", "mxfp4 to the letter of the specification", "OCP MX 1.0", mxfp4_spec},
    {"torchao_floor", "FLOOR mode; all-zero blocks get the smallest scale", "pytorch/ao mx_formats",
     {.scale_rule = ScaleRule::floor, .zero_block = ZeroBlock::limit}},
    {"torchao_ceil", "CEIL mode", "pytorch/ao mx_formats", {.scale_rule = ScaleRule::ceil, .zero_block = ZeroBlock::limit}},
    {"torchao_rceil", "RCEIL mode", "pytorch/ao mx_formats", {.scale_rule = ScaleRule::rceil, .zero_block = ZeroBlock::limit}},
    {"torchao_even", "EVEN mode", "pytorch/ao mx_formats", {.scale_rule = ScaleRule::even, .zero_block = ZeroBlock::limit}},
    {"quark_even", "even rule", "AMD Quark", {.scale_rule = ScaleRule::even}},
    {"alto_uos", "uos rule, scales from 2^-126", "AMD-AGI/ALTO", {.scale_rule = ScaleRule::uos, .scale_floor = 0x1p-126f}},
    {"cublas_rceil", "rceil rule", "cuBLAS / PTX cvt.rp.ue8m0x2", {.scale_rule = ScaleRule::rceil}},
    {"te_nvfp4", "nvfp4 in Transformer Engine's order of operations; zero scales stay", "NVIDIA TransformerEngine",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::te,
      .tensor_scale = TensorScale::current, .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit}},
    {"torchao_nvfp4", "nvfp4 by reciprocals, block scales from 2^-6", "pytorch/ao mx_formats",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::reciprocal,
      .tensor_scale = TensorScale::current, .zero_block = ZeroBlock::limit, .scale_floor = 0x1p-6f}},
    {"fouroversix", "nvfp4 with the better of amax/6 and amax/4, target 256, zero scales kept; exact where the code divides in fp32",
     "2512.02010, mit-han-lab/fouroversix",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::four_over_six, .tensor_scale = TensorScale::current,
      .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit}},
    {"fbgemm_mx4", "mxfp4, ceil (its default), ties away from zero; its float log2 errs near powers of two, its scales stop at 2^125",
     "pytorch/FBGEMM quantize_mx4", {.scale_rule = ScaleRule::ceil, .rounding = Rounding::nearest_away, .zero_block = ZeroBlock::limit}},
    {"ggml_mxfp4", "mxfp4, ties toward zero, no negative zero", "ggml-org/ggml",
     {.rounding = Rounding::nearest_toward_zero, .negative_zero = NegativeZero::drop}},
    {"quartet_mxfp4", "Gaussian-optimal scale (floor), ties toward zero, without the code's +1e-8 to that scale and its Hadamard of 32",
     "IST-DASLab/Quartet, released code",
     {.scale_rule = ScaleRule::quest_floor, .rounding = Rounding::nearest_toward_zero}},
    {"qpytorch_e2m1", "e2m1 cast without a scale, ties away", "QPyTorch float_quantize",
     {.scale = Scale::none, .rounding = Rounding::nearest_away}},
    {"microxcaling_even", "mxfp4 with round=even; its float log2 is one high just below powers of two (1 ulp at 2^3, 44 at 2^-117), the preset is not",
     "microsoft/microxcaling", {.zero_block = ZeroBlock::limit}},
    {"microxcaling_default", "mxfp4 with round=nearest: ties away; log2 as in microxcaling_even", "microsoft/microxcaling",
     {.rounding = Rounding::nearest_away, .zero_block = ZeroBlock::limit}},
    {"graphcore_2509_encode", "stored multiplier, ue5m3 per 16, g = amax", "2509.17791, released code",
     {.scale = Scale::ue5m3, .block = block_of_16, .scale_rule = ScaleRule::encode, .tensor_scale = TensorScale::current,
      .target = 1.0f / 6.0f}},
};
// clang-format on

inline const Preset* find_preset(std::string_view name) { return find_row(preset_table, name); }

}  // namespace fp4
