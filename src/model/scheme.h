// The schemes in which checkpoints keep FP4 weights, and those in FP8 that are written, one row each: names, types, and
// what the factor of a tensor says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fp4/tensor_scale.h"
#include "src/files/dtype.h"
#include "src/files/gguf.h"
#include "src/text/named_rows.h"

namespace fp4 {

// What a file stores for a tensor. one: nothing, the factor is 1. direct: g, decoding multiplies by it. reciprocal:
// S = 1/g, decoding divides by it. amax: the largest magnitude A, g = A * (1 / (448 * 6)).
enum class Factor : std::uint8_t { one, direct, reciprocal, amax };

// scalar: shape []. single: [1]. experts: [1], and [E] of a stack [E, rows, cols], whose experts have one each.
enum class FactorShape : std::uint8_t { scalar, single, experts };

// What an engine does with the inputs of quantised layers.
enum class Activations : std::uint8_t { none, dynamic, calibrated };
inline constexpr AxisRow<Activations> activations_table[] = {
    {Activations::none, "none", "weights alone are FP4; inputs stay bf16 (W4A16)", "vLLM: W4A16_NVFP4, NVFP4A16"},
    {Activations::dynamic, "dynamic", "inputs are quantised with scales of their own at run time",
     "compressed-tensors MXFP4; DeepSeek's FP8"},
    {Activations::calibrated, "static", "inputs are quantised with a stored factor, which the source has to hold",
     "Model-Optimizer NVFP4: input_scale; compressed-tensors NVFP4: input_global_scale"},
};

// Weights that a loader takes as FP4: of any linear layer, of routed experts alone (other layers are of another type),
// or of stacks of experts alone (one tensor [experts, out, in]).
enum class Takes : std::uint8_t { linear, experts, stacks };

// What the engines that load a scheme take. NVFP4 inputs need a stored factor: engines multiply input_scale whether or
// not the file has one, so that NVFP4 without calibration is weight-only.
struct EngineRules {
  const char* source;
  Takes takes = Takes::linear;
  Activations activations[2] = {Activations::none, Activations::none};  // accepted; the first is the default
  const char* inputs = "";  // the stored factor of inputs, which stands in the place of "weight"; "": none
  bool inputs_reciprocal = false;
};

// Names are STEM + ending. Codes are two a byte, the even column in the low nibble; scales are row-major. GGUF keeps
// codes and scales in blocks of one tensor (gguf.h) and has no endings. `decode` is the order of operations of the
// scheme's owner. FP8 codes are a byte each, under fp32 scales; what is read of FP8 says weight_names.h.
struct CheckpointScheme {
  const char* name;
  const char* whole;  // how the tensor ends before it is quantised: "weight"
  const char* codes;  // "weight_packed"
  Dtype codes_dtype;
  const char* scales;  // what stands in its place in the names of the others
  Dtype scales_dtype;
  const char* factor;  // "" where there is none
  Factor meaning;
  Dtype factor_dtype;
  FactorShape factor_shape;
  Decode decode;
  int block;         // elements of a row that share a scale; 0: all of them
  const char* spec;  // in our words: what quantises unless --spec says others
  const char* doc;
  const char* source;
  EngineRules engine;
  GgufValues gguf = GgufValues::plain;  // of a GGUF's block type; plain: safetensors
  int block_rows = 1;                   // rows that share a scale

  constexpr bool is_fp8() const { return codes_dtype == Dtype::f8_e4m3; }
};

// clang-format off
inline constexpr CheckpointScheme checkpoint_schemes[] = {
    {"modelopt_nvfp4", "weight", "weight", Dtype::u8, "weight_scale", Dtype::f8_e4m3,
     "weight_scale_2", Factor::direct, Dtype::f32, FactorShape::scalar, Decode::factor_first, 16, "nvfp4",
     "weight_scale_2 is the tensor scale g", "NVIDIA Model-Optimizer",
     {"Model-Optimizer export/quant_utils.py, vLLM quantization/modelopt.py (2026-08)", Takes::linear,
      {Activations::none, Activations::calibrated}, "input_scale"}},
    {"compressed_tensors_nvfp4", "weight", "weight_packed", Dtype::u8, "weight_scale", Dtype::f8_e4m3,
     "weight_global_scale", Factor::reciprocal, Dtype::f32, FactorShape::single, Decode::divide_global, 16, "nvfp4",
     "weight_global_scale is 1/g", "compressed-tensors nvfp4-pack-quantized",
     {"compressed-tensors quant_scheme.py NVFP4A16, NVFP4 (2026-08)", Takes::linear,
      {Activations::none, Activations::calibrated}, "input_global_scale", true}},
    {"compressed_tensors_mxfp4", "weight", "weight_packed", Dtype::u8, "weight_scale", Dtype::u8,
     "", Factor::one, Dtype::f32, FactorShape::scalar, Decode::scale_then_tensor, 32, "compressed_tensors_mxfp4",
     "weight_scale is E8M0", "compressed-tensors mxfp4-pack-quantized",
     {"compressed-tensors quant_scheme.py MXFP4A16, MXFP4 (2026-08)", Takes::linear,
      {Activations::none, Activations::dynamic}}},
    {"modelopt_mxfp4", "weight", "weight", Dtype::u8, "weight_scale", Dtype::u8,
     "", Factor::one, Dtype::f32, FactorShape::scalar, Decode::scale_then_tensor, 32, "modelopt_mxfp4",
     "weight_scale is E8M0", "NVIDIA Model-Optimizer", {"Model-Optimizer export/quant_utils.py (2026-08)"}},
    {"gpt_oss_mxfp4", "", "_blocks", Dtype::u8, "_scales", Dtype::u8,
     "", Factor::one, Dtype::f32, FactorShape::scalar, Decode::scale_then_tensor, 32, "mxfp4",
     "blocks [.., K/32, 16], scales [.., K/32] E8M0", "openai/gpt-oss",
     {"transformers quantizer_mxfp4.py, config.json of gpt-oss (2026-07)", Takes::stacks}},
    {"deepseek_mxfp4", "weight", "weight", Dtype::i8, "scale", Dtype::f8_e8m0,
     "", Factor::one, Dtype::f32, FactorShape::scalar, Decode::scale_then_tensor, 32, "mxfp4",
     "codes are int8 of two nibbles", "DeepSeek-V4 checkpoints",
     {"vLLM deepseek_v4 quant_config.py: FP8 layers, experts by expert_dtype (2026-08)", Takes::experts,
      {Activations::dynamic, Activations::dynamic}}},
    {"ggml_mxfp4", "weight", "", Dtype::u8, "", Dtype::u8,
     "", Factor::one, Dtype::f32, FactorShape::scalar, Decode::scale_then_tensor, 32, "ggml_mxfp4",
     "GGUF type 39: E8M0, then 16 bytes half_split_32; scale 0xFF reads as NaN", "ggml-common.h block_mxfp4",
     {"llama.cpp (2026-10)"},
     GgufValues::mxfp4},
    {"ggml_nvfp4", "weight", "", Dtype::u8, "", Dtype::u8,
     "scale", Factor::direct, Dtype::f32, FactorShape::experts, Decode::scale_then_tensor, 16, "nvfp4,tensor_scale=none",
     "GGUF type 40: 4 x UE4M3, then 4 x 8 bytes half_split_16; STEM.scale, if there, is g (--spec nvfp4 writes it)",
     "ggml-common.h block_nvfp4", {"llama.cpp (2026-10)"}, GgufValues::nvfp4},
    {"mlx_nvfp4", "weight", "weight", Dtype::u32, "scales", Dtype::u8,
     "", Factor::one, Dtype::f32, FactorShape::scalar, Decode::scale_then_tensor, 16, "mlx_nvfp4",
     "codes are words of eight, scales E4M3 bytes", "mlx QuantizedLinear, mode nvfp4",
     {"mlx-lm utils.py load_model (2026-09)"}},
    {"mlx_mxfp4", "weight", "weight", Dtype::u32, "scales", Dtype::u8,
     "", Factor::one, Dtype::f32, FactorShape::scalar, Decode::scale_then_tensor, 32, "mlx_mxfp4",
     "codes are words of eight, scales E8M0 bytes", "mlx QuantizedLinear, mode mxfp4",
     {"mlx-lm utils.py load_model (2026-09)"}},
    {"fp8_block", "weight", "weight", Dtype::f8_e4m3, "weight_scale_inv", Dtype::f32,
     "", Factor::one, Dtype::f32, FactorShape::scalar, Decode::scale_then_tensor, 128, "mxfp8,scale=fp32,block=128x128",
     "E4M3, a power of two for 128 x 128 elements, which multiplies", "DeepSeek-V3.1, Qwen3-FP8",
     {"transformers quantizer_finegrained_fp8.py, vLLM fp8.py (2026-08)", Takes::linear,
      {Activations::dynamic, Activations::dynamic}}, GgufValues::plain, 128},
    {"compressed_tensors_fp8", "weight", "weight", Dtype::f8_e4m3, "weight_scale", Dtype::f32,
     "", Factor::one, Dtype::f32, FactorShape::scalar, Decode::scale_then_tensor, 0, "mxfp8,scale=fp32,block=row",
     "E4M3, a power of two for each row", "compressed-tensors float-quantized, strategy channel",
     {"compressed-tensors quant_scheme.py FP8, FP8_DYNAMIC (2026-08)", Takes::linear,
      {Activations::none, Activations::dynamic}}},
};
// clang-format on

// The word of config.json for a scheme of MLX: "nvfp4"; "" of another.
constexpr std::string_view mlx_mode(const CheckpointScheme& scheme) {
  const std::string_view owner = "mlx_", name = scheme.name;
  return name.starts_with(owner) ? name.substr(owner.size()) : "";
}

// A scheme by name; Error, which `place` opens, with the accepted words.
inline const CheckpointScheme& scheme_of(const std::string& place, std::string_view name) {
  return named_row(place, name, checkpoint_schemes);
}

// What the factor that an order of decoding reads (tensor_scale.h) says.
constexpr Factor meaning_of(Decode decode) {
  return decode == Decode::divide_global ? Factor::reciprocal
                                         : (decode == Decode::amax_first ? Factor::amax : Factor::direct);
}

// A factor of one meaning said in another; `top` is fl32(target * M), 448 * 6 of NVFP4. NaN where it cannot be said.
inline float factor_in(Factor to, Factor from, float factor, float top) {
  if (to == from) return factor;
  const float g = from == Factor::reciprocal ? 1.0f / factor : (from == Factor::amax ? factor * (1.0f / top) : factor);
  return to == Factor::reciprocal ? 1.0f / g : (to == Factor::amax ? g * top : g);
}

}  // namespace fp4
