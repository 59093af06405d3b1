// Named QuantSpecs: the formats of the design space and, for what libraries and kernels do, one preset each. Where a
// library does what no word says, the doc says so. `fp4sim list presets --json` says which peer ran beside a preset.
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

inline constexpr QuantSpec nvfp4_by_multiplier_spec = {
    .scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::vllm,
    .tensor_scale = TensorScale::current, .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit, .decode = Decode::factor_first};

constexpr QuantSpec choice_spec(Element first, Element second) {
  QuantSpec s = nvfp4_spec;
  s.element = first;
  s.choice = {true, second};
  return s;
}

// Two candidates of a block's scale, for 6 and for 4, by errors in fp32.
constexpr QuantSpec four_over_six_spec(PayloadOrder payload, TrialError error, ErrorOrder order) {
  QuantSpec s = {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::four_over_six,
                 .arithmetic = Arithmetic::fouroversix, .tensor_scale = TensorScale::current, .zero_scale = ZeroScale::keep,
                 .zero_block = ZeroBlock::limit, .error = error};
  if (payload != payload_order_of(s.arithmetic)) s.payload = payload;
  s.error_order = order;
  return s;
}

constexpr QuantSpec flashinfer_46_spec(ErrorOrder order) {
  QuantSpec s = four_over_six_spec(PayloadOrder::te, TrialError::mae, order);
  s.target = 448.0f;
  return s;
}

constexpr QuantSpec fouroversix_code_spec() {
  QuantSpec s = four_over_six_spec(PayloadOrder::vllm, TrialError::mse, ErrorOrder::decoded_amax);
  s.negative_zero = NegativeZero::of_rounding;
  return s;
}

constexpr QuantSpec fbgemm_spec(ScaleRule rule) {
  QuantSpec s = {.scale_rule = rule, .rounding = Rounding::nearest_away, .zero_block = ZeroBlock::limit};
  s.scale_ceiling = 0x1p125f;
  s.exponent = Exponent::float_log2;
  return s;
}

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
    {"nvint4", "int4, ue4m3 per 16, fp32 tensor scale", "2603.28765",
     {.element = Element::int4, .scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .tensor_scale = TensorScale::current}},
    {"nf4", "nf4, fp32 per 64", "QLoRA 2305.14314",
     {.element = Element::nf4, .scale = Scale::fp32, .block = {BlockKind::vector, 64}, .scale_rule = ScaleRule::amax}},
    {"af4", "af4, fp32 per 64", "2306.06965",
     {.element = Element::af4, .scale = Scale::fp32, .block = {BlockKind::vector, 64}, .scale_rule = ScaleRule::amax}},
    {"if4", "nvfp4 whose blocks take e2m1 or int4_6, the better by squared error; exact where the code rounds in fp32", "2603.28765, mit-han-lab/fouroversix",
     choice_spec(Element::e2m1, Element::int4_6)},
    {"mixfp4", "nvfp4 whose blocks take e2m1 or int4, each with its own scale, the better by squared error; int4 stands for the paper's e1m2, whose codes have a sign bit",
     "2605.31035", choice_spec(Element::e2m1, Element::int4)},
    {"razer", "nvfp4 whose blocks take -5 or 5 in place of -0, the better by squared error; exact where the code rounds in fp32", "2501.04052, quant_nvfp4_razer_e4m3",
     choice_spec(Element::e2m1_minus_5, Element::e2m1_plus_5)},
    {"hifloat4", "hif4, e6m2 per 64, ties away; exact where the code rounds in bf16", "2602.11287",
     {.element = Element::hif4, .scale = Scale::e6m2, .block = {BlockKind::vector, 64}, .scale_rule = ScaleRule::amax, .rounding = Rounding::nearest_away}},
    {"mx6", "mx6, e8m0 per 16, floor", "2302.08007", {.element = Element::mx6, .block = block_of_16}},
    {"mx9", "mx9, e8m0 per 16, floor", "2302.08007", {.element = Element::mx9, .block = block_of_16}},
    {"ocp_mxfp4", "mxfp4 to the letter of the specification", "OCP MX 1.0", mxfp4_spec},
    {"torchao_floor", "FLOOR mode; all-zero blocks get the smallest scale", "pytorch/ao mx_formats",
     {.scale_rule = ScaleRule::floor, .zero_block = ZeroBlock::limit}},
    {"torchao_ceil", "CEIL mode", "pytorch/ao mx_formats", {.scale_rule = ScaleRule::ceil, .zero_block = ZeroBlock::limit}},
    {"torchao_rceil", "RCEIL mode", "pytorch/ao mx_formats", {.scale_rule = ScaleRule::rceil, .zero_block = ZeroBlock::limit}},
    {"torchao_even", "EVEN mode", "pytorch/ao mx_formats", {.scale_rule = ScaleRule::even, .zero_block = ZeroBlock::limit}},
    {"quark_even", "even rule", "AMD Quark", {.scale_rule = ScaleRule::even}},
    {"alto_uos", "uos rule, scales from 2^-126", "AMD-AGI/ALTO", {.scale_rule = ScaleRule::uos, .scale_floor = 0x1p-126f}},
    {"cublas_rceil", "rceil rule", "cuBLAS / PTX cvt.rp.ue8m0x2", {.scale_rule = ScaleRule::rceil}},
    {"quark_mxfp4", "as quark_even", "AMD Quark", {.scale_rule = ScaleRule::even}},
    {"te_nvfp4", "nvfp4 in Transformer Engine's order of operations; zero scales stay; its Python reference codes an input -0 as +0", "NVIDIA TransformerEngine",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::te,
      .tensor_scale = TensorScale::current, .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit}},
    {"te_46_mae", "nvfp4 with the better of amax/6 and amax/4 by absolute error in fp32, target 256; its Python reference codes an input -0 as +0",
     "NVIDIA TransformerEngine, NVFP4 4over6", four_over_six_spec(PayloadOrder::te, TrialError::mae, ErrorOrder::decoded_amax)},
    {"te_46_mae_fast", "te_46_mae with errors against fl32(x*S)", "NVIDIA TransformerEngine, NVFP4 4over6, err_use_fast_math",
     four_over_six_spec(PayloadOrder::te, TrialError::mae, ErrorOrder::scaled)},
    {"flashinfer_46_mae", "as te_46_mae, target 448, errors of q*s*g; kernels differ: an ulp of 1/x without FLASHINFER_DISABLE_FP4_QUANT_FAST_MATH, two sums of 8 errors; S from Python is factor_order=inverse",
     "FlashInfer fp4_quantize, FLASHINFER_NVFP4_4OVER6",
     flashinfer_46_spec(ErrorOrder::decoded_factor)},
    {"flashinfer_46_mae_fast", "as te_46_mae_fast, target 448", "FlashInfer fp4_quantize, FLASHINFER_NVFP4_4OVER6_ERR_USE_FAST_MATH",
     flashinfer_46_spec(ErrorOrder::scaled)},
    {"te_ue5m3", "te_nvfp4 with ue5m3 scales and no tensor scale", "NVIDIA TransformerEngine, pull request 3325",
     {.scale = Scale::ue5m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::te,
      .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit}},
    {"vllm_nvfp4", "nvfp4 from S = 448*6/amax, payloads by 1/(s*g); the kernel's approximate reciprocal may differ by an ulp",
     "vLLM nvfp4_quant_kernels", nvfp4_by_multiplier_spec},
    {"flashinfer_nvfp4", "as vllm_nvfp4", "FlashInfer fp4_quantize", nvfp4_by_multiplier_spec},
    {"trtllm_nvfp4", "as vllm_nvfp4", "TensorRT-LLM fp4_quantize", nvfp4_by_multiplier_spec},
    {"compressed_tensors_nvfp4", "nvfp4 by divisions from S; a scale that rounds to zero becomes 1/8; on bf16 models with factor_format=bf16 and compute=bf16, on fp16 models both fp16", "vllm-project/compressed-tensors",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::divide_global,
      .tensor_scale = TensorScale::current, .zero_scale = ZeroScale::eighth, .zero_block = ZeroBlock::limit,
      .negative_zero = NegativeZero::of_rounding, .decode = Decode::divide_global}},
    {"compressed_tensors_mxfp4", "mxfp4 with the even rule on bf16 values", "vllm-project/compressed-tensors",
     {.scale_rule = ScaleRule::even, .arithmetic = Arithmetic::divide, .zero_block = ZeroBlock::limit,
      .negative_zero = NegativeZero::of_rounding, .compute = Compute::bf16}},
    {"modelopt_nvfp4", "nvfp4 with scales of a/(6g) and payloads of x/(s*g); the code takes 1 for quotients a/(6g) that underflow to 0", "NVIDIA Model-Optimizer NVFP4QTensor",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::modelopt,
      .tensor_scale = TensorScale::current, .negative_zero = NegativeZero::of_rounding, .decode = Decode::factor_first}},
    {"modelopt_mxfp4", "mxfp4, rceil by float log2, ties toward zero; zeros have code 8", "NVIDIA Model-Optimizer MXFP4QTensor",
     {.scale_rule = ScaleRule::rceil, .rounding = Rounding::nearest_toward_zero, .zero_block = ZeroBlock::limit,
      .negative_zero = NegativeZero::zeros, .exponent = Exponent::float_log2}},
    {"torchao_nvfp4", "nvfp4 by reciprocals, block scales from 2^-6", "pytorch/ao mx_formats",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::reciprocal,
      .tensor_scale = TensorScale::current, .zero_block = ZeroBlock::limit, .scale_floor = 0x1p-6f, .decode = Decode::factor_first}},
    {"fouroversix", "nvfp4 with the better of amax/6 and amax/4, target 256, zero scales kept; exact where the code divides in fp32",
     "2512.02010, mit-han-lab/fouroversix",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::four_over_six, .tensor_scale = TensorScale::current,
      .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit}},
    {"fouroversix_code", "fouroversix in the order of its PyTorch code; exceptions: the order of sums is PyTorch's, payloads from 7 on become 8 (code -0), +0 under a zero scale",
     "mit-han-lab/fouroversix", fouroversix_code_spec()},
    {"nvint4_code", "nvint4 in the order of fouroversix's PyTorch code", "mit-han-lab/fouroversix",
     {.element = Element::int4, .scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax,
      .arithmetic = Arithmetic::fouroversix, .tensor_scale = TensorScale::current, .zero_scale = ZeroScale::keep,
      .zero_block = ZeroBlock::limit}},
    {"if4_code", "if4 in the order of fouroversix's PyTorch code; exceptions: those of fouroversix_code", "mit-han-lab/fouroversix",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::fouroversix,
      .tensor_scale = TensorScale::current, .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit,
      .negative_zero = NegativeZero::of_rounding, .choice = {true, Element::int4_6}, .error_order = ErrorOrder::decoded_amax}},
    {"razer_code", "razer in the order of its PyTorch code, ties toward zero; the order of sums is PyTorch's", "quant_nvfp4_razer_e4m3",
     {.element = Element::e2m1_minus_5, .scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax,
      .arithmetic = Arithmetic::factor_first, .rounding = Rounding::nearest_toward_zero, .tensor_scale = TensorScale::current,
      .zero_block = ZeroBlock::limit, .choice = {true, Element::e2m1_plus_5}, .payload = PayloadOrder::divide_twice,
      .error_order = ErrorOrder::scaled}},
    {"hifloat4_code", "hifloat4 with 1/7 and 1/s in bf16, for bf16 values", "HiFloat4 2602.11287, quant_hifx",
     {.element = Element::hif4, .scale = Scale::e6m2, .block = {BlockKind::vector, 64}, .scale_rule = ScaleRule::amax,
      .arithmetic = Arithmetic::bf16_reciprocals, .rounding = Rounding::nearest_away, .zero_block = ZeroBlock::limit}},
    {"bitsandbytes_nf4", "nf4 by 1/amax in fp32, ties to the lower value; the code takes 1e-38 for a smaller amax", "bitsandbytes quantize_4bit",
     {.element = Element::nf4, .scale = Scale::fp32, .block = {BlockKind::vector, 64}, .scale_rule = ScaleRule::amax,
      .arithmetic = Arithmetic::te, .rounding = Rounding::nearest_below, .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit}},
    {"mlx_mxfp4", "mxfp4 with 2^round(log2(a/6)), log2 in fp32, halves away from zero; without a GPU, halves and codes' ties are otherwise", "ml-explore/mlx fp_quantize, kernels",
     {.scale_rule = ScaleRule::nearest_log2, .zero_block = ZeroBlock::limit, .exponent = Exponent::float_log2}},
    {"mlx_nvfp4", "e2m1, ue4m3 per 16, no tensor scale, payloads of x*(1/s), zero scales kept", "ml-explore/mlx fp_quantize",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::fouroversix,
      .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit, .payload = PayloadOrder::multiply_global}},
    {"mlx_nvfp4_global", "mlx_nvfp4 under a tensor scale: S*(a/6), x*(S/s)", "ml-explore/mlx fp_quantize, global_scale",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::fouroversix,
      .tensor_scale = TensorScale::current, .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit,
      .payload = PayloadOrder::multiply_global}},
    {"alto_nvfp4", "nvfp4 with scales of (a/g)/6 from 2^-6 and payloads of x/(s*g); the code leaves a NaN out of the tensor's amax", "AMD-AGI/ALTO",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .arithmetic = Arithmetic::factor_first,
      .tensor_scale = TensorScale::current, .zero_block = ZeroBlock::limit, .scale_floor = 0x1p-6f}},
    {"pytorch_mxfp4", "mxfp4, rceil by float log2, payloads rounded to bf16 before their codes; under scale code 0 the code multiplies by 1",
     "PyTorch 2.14, to_mxfp",
     {.scale_rule = ScaleRule::rceil, .zero_block = ZeroBlock::limit, .exponent = Exponent::float_log2,
      .payload_type = PayloadType::bf16}},
    {"trainium3_mxfp8", "mxfp8 with scales twice those of floor", "AWS Neuron, nki.isa.quantize_mx",
     {.element = Element::e4m3, .scale_rule = ScaleRule::floor_plus_one}},
    {"fbgemm_mx4", "as fbgemm_mx4_ceil, its default", "pytorch/FBGEMM quantize_mx4", fbgemm_spec(ScaleRule::ceil)},
    {"fbgemm_mx4_ceil", "mxfp4, ceil by float log2, ties away from zero, scales up to 2^125; its Python code errs below scale/1000", "pytorch/FBGEMM quantize_mx4",
     fbgemm_spec(ScaleRule::ceil)},
    {"fbgemm_mx4_floor", "the same with floor", "pytorch/FBGEMM quantize_mx4", fbgemm_spec(ScaleRule::floor)},
    {"fbgemm_mx4_even", "the same with even_above; the code's sum wraps for maxima from 1.75*2^127 on", "pytorch/FBGEMM quantize_mx4", fbgemm_spec(ScaleRule::even_above)},
    {"fbgemm_mx4_nearest", "the same with 2^round(log2 a), halves to even",
     "pytorch/FBGEMM quantize_mx4", fbgemm_spec(ScaleRule::nearest_log2_amax)},
    {"ggml_mxfp4", "mxfp4, floor by float log2, ties toward zero, no negative zero; the code's scale byte wraps for maxima below 2^-124", "ggml-org/ggml",
     {.rounding = Rounding::nearest_toward_zero, .zero_block = ZeroBlock::limit, .negative_zero = NegativeZero::drop,
      .exponent = Exponent::float_log2}},
    {"ggml_nvfp4", "e2m1, ue4m3 per 16, no tensor scale, scale ties away, element ties toward zero; the code makes 448 of scales from 248 on and 7*2^-9 of 7.5*2^-9",
     "ggml-org/ggml",
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .scale_rounding = Rounding::nearest_away,
      .rounding = Rounding::nearest_toward_zero, .zero_scale = ZeroScale::keep, .zero_block = ZeroBlock::limit,
      .negative_zero = NegativeZero::drop}},
    {"quartet_mxfp4", "Gaussian-optimal scale + 1e-8 (floor), ties toward zero; without the code's Hadamard of 32",
     "IST-DASLab/Quartet, released code",
     {.scale_rule = ScaleRule::quest_floor, .rounding = Rounding::nearest_toward_zero, .scale_add = 1e-8f}},
    {"quartet_mxfp4_backward", "floor, payloads times 3/4, stochastic; without the code's Hadamard of 32",
     "IST-DASLab/Quartet, released code", {.rounding = Rounding::stochastic, .prescale = 0.75f}},
    {"fp_quant_mxfp4", "floor by float log2, payloads times 3/4", "IST-DASLab/FP-Quant",
     {.prescale = 0.75f, .exponent = Exponent::float_log2}},
    {"qpytorch_e2m1", "e2m1 cast without a scale, ties away", "QPyTorch float_quantize",
     {.scale = Scale::none, .rounding = Rounding::nearest_away}},
    {"microxcaling_even", "mxfp4 with round=even, floor by float log2; the code moves the float below scale/4 up", "microsoft/microxcaling",
     {.zero_block = ZeroBlock::limit, .exponent = Exponent::float_log2}},
    {"microxcaling_default", "mxfp4 with round=nearest: ties away; else as microxcaling_even", "microsoft/microxcaling",
     {.rounding = Rounding::nearest_away, .zero_block = ZeroBlock::limit, .exponent = Exponent::float_log2}},
    {"microxcaling_floor", "mxfp4 with round=floor: toward zero; floor by float log2", "microsoft/microxcaling",
     {.rounding = Rounding::toward_zero, .zero_block = ZeroBlock::limit, .exponent = Exponent::float_log2}},
    {"microxcaling_even_bf16", "microxcaling_even on bf16 tensors: log2 in bf16", "microsoft/microxcaling",
     {.arithmetic = Arithmetic::divide, .zero_block = ZeroBlock::limit, .compute = Compute::bf16, .exponent = Exponent::float_log2}},
    {"graphcore_2509_encode", "stored multiplier, ue5m3 per 16, g = amax", "2509.17791, released code",
     {.scale = Scale::ue5m3, .block = block_of_16, .scale_rule = ScaleRule::encode, .tensor_scale = TensorScale::current,
      .target = 1.0f / 6.0f}},
};
// clang-format on

inline const Preset* find_preset(std::string_view name) { return find_row(preset_table, name); }

}  // namespace fp4
