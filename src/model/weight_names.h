// Names under which checkpoints keep quantised weights, beside those that we write (scheme.h): one row each, with whose
// files have them. A weight is STEM + codes, its scales STEM + scales, its factor STEM + factor.
#pragma once

#include <cstdint>
#include <string_view>

namespace fp4 {

struct WeightNames {
  const char* scheme;  // of scheme.h
  const char* whole;   // how the tensor is called when it is decoded
  const char* codes;
  const char* scales;
  const char* factor;
  const char* source;
};
inline constexpr WeightNames other_weight_names[] = {
    {"modelopt_nvfp4", "", "", "_weight_scale", "_weight_scale_2",
     "experts.down_proj of Llama 4 and GPT-OSS, Model-Optimizer's export of stacks"},
    {"modelopt_mxfp4", "", "", "_weight_scale", "", "the same stacks with E8M0 scales, AMD Quark"},
    {"compressed_tensors_nvfp4", "", "_packed", "_scale", "_global_scale",
     "experts.gate_up_proj_packed, compressed-tensors on stacks"},
    {"compressed_tensors_mxfp4", "", "_packed", "_scale", "", "the same with E8M0 scales"},
    {"deepseek_mxfp4", "weight", "weight", "weight_scale", "", "DeepSeek-V4 as converted by vLLM and SGLang"},
};

// FP8 weights: the element times its scale. STEM + scales has one number, one of each row, or one of each 128 x 128 (or
// 1 x 128, 1 x 32) elements; its name says nothing of which.
struct Fp8Names {
  const char* codes;
  const char* scales;
  const char* source;
};
inline constexpr Fp8Names fp8_names[] = {
    {"weight", "weight_scale_inv", "DeepSeek-V3, Qwen3-FP8 (128 x 128); it multiplies, whatever the name says"},
    {"weight", "weight_scale", "Model-Optimizer (one), compressed-tensors (rows)"},
    {"weight", "scale", "DeepSeek-V4 (128 x 128, E8M0)"},
    {"weight", "scale_weight", "ComfyUI's older fp8_scaled"},
    {"", "_scale_inv", "stacks of experts, DeepSeek's convention"},
    {"", "_weight_scale", "experts.down_proj of Llama 4, Model-Optimizer"},
    {"", "_scale", "experts.down_proj of Llama 4, compressed-tensors"},
};

// Tensors that describe the quantisation of the weight STEM + codes and mean nothing without it.
inline constexpr const char* companions[] = {
    "comfy_quant",         // ComfyUI: the layer's format as JSON
    "weight_shape",        // compressed-tensors: the shape before packing
    "scaled_fp8",          // ComfyUI's older marker
    "input_scale",         // Model-Optimizer: of activations
    "input_global_scale",  // compressed-tensors: of activations
    "input_zero_point",    // the same, asymmetric
    "input_scale_ub",      // FBGEMM's FP8: the largest scale of activations
    "scale_input",         // ComfyUI's older fp8_scaled
    "output_scale",        // of what the layer gives
};

// Endings of tensors that are parts of quantised weights wherever they stand.
inline constexpr const char* quantised_endings[] = {
    "weight_packed",  "_blocks",          "qweight",      "qzeros",       "weight_zero_point",   "weight_scale",
    "weight_scale_2", "weight_scale_inv", "_scales",      "scale_weight", "weight_global_scale", "comfy_quant",
    "absmax",         "quant_map",        "weight_g_idx", ".scales"};
// Endings that say so where the rest of the name is a tensor, too: down_proj and down_proj_scale.
inline constexpr const char* quantised_beside[] = {"_scale", "_scale_2", "_scale_inv", "_global_scale"};

// A GGUF's factor beside STEM.weight: llama.cpp reads the first, others have been seen.
inline constexpr const char* gguf_factor_names[] = {"scale", "weight.scale", "weight_scale", "weight_scale_2"};

// What lies beside a weight or in an attention layer and changes what their codes are worth: one row a name. A weight
// is asked for each of them; what nobody uses is an error, as the weight would be another one without it.
//
// columns: one number for each column multiplies the weight, which is read with it. other: changes the weight in a way
// that is not read.
enum class Beside : std::uint8_t { columns, other };

struct BesideRow {
  const char* name;  // behind the weight's stem
  Beside kind;
  const char* doc;
  const char* source;
};
inline constexpr BesideRow beside_rows[] = {
    {"pre_quant_scale", Beside::columns, "multiplies the layer's inputs", "Model-Optimizer: AWQ, SmoothQuant"},
    {"svdquant_lora_a", Beside::other, "low-rank part", "Model-Optimizer: NVFP4_SVD"},
    {"svdquant_lora_b", Beside::other, "low-rank part", "Model-Optimizer: NVFP4_SVD"},
    {"weight_quantizer.svdquant_lora_a", Beside::other, "low-rank part", "Model-Optimizer, not exported"},
    {"proj_down", Beside::other, "low-rank part", "Nunchaku: SVDQuant"},
    {"lora_down", Beside::other, "low-rank part", "Nunchaku: SVDQuant, older files"},
    {"lora_A.weight", Beside::other, "low-rank part", "LoftQ, QLoRA with merged names"},
    {"smooth_factor", Beside::other, "divides the layer's inputs", "Nunchaku: SVDQuant"},
    {"smooth", Beside::other, "divides the layer's inputs", "Nunchaku: SVDQuant, older files"},
    {"weight_g_idx", Beside::other, "order of columns", "compressed-tensors: actorder=group"},
    {"weight_zero_point", Beside::other, "zero point", "compressed-tensors: asymmetric weights"},
    {"weight_permutation", Beside::other, "order of columns", "Marlin"},
};

// Scales of the KV cache, as the two families of schemes call them: STEM + name in the module of attention.
struct CacheRow {
  const char* name;        // as the file has it
  const char* optimizer;   // in Model-Optimizer's schemes; "": they have none
  const char* compressed;  // in compressed-tensors'
  const char* source;
};
inline constexpr CacheRow cache_rows[] = {
    {".k_proj.k_scale", ".k_proj.k_scale", ".k_scale", "Model-Optimizer"},
    {".v_proj.v_scale", ".v_proj.v_scale", ".v_scale", "Model-Optimizer"},
    {".k_proj.output_scale", ".k_proj.k_scale", ".k_scale", "Model-Optimizer before 0.19"},
    {".v_proj.output_scale", ".v_proj.v_scale", ".v_scale", "Model-Optimizer before 0.19"},
    {".k_scale", ".k_proj.k_scale", ".k_scale", "compressed-tensors kv_cache_scheme"},
    {".v_scale", ".v_proj.v_scale", ".v_scale", "compressed-tensors kv_cache_scheme"},
    {".q_scale", "", ".q_scale", "compressed-tensors: queries of attention"},
    {".kv_scale", "", "", "vLLM before 0.7"},
    {".kv_cache_scaling_factor", "", "", "TensorRT-LLM"},
    {".prob_output_scale", "", "", "AMD Quark"},
};

// The row of a tensor that scales a KV cache; nullptr for another.
constexpr const CacheRow* cache_row_of(std::string_view name) {
  for (const CacheRow& row : cache_rows)
    if (name.ends_with(row.name)) return &row;
  return nullptr;
}

}  // namespace fp4
