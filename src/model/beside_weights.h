// What lies beside a weight or in an attention layer and changes what their codes are worth: one row a name. A weight
// is asked for each of them; what nobody uses is an error, as the weight would be another one without it.
#pragma once

#include <cstdint>
#include <string_view>

namespace fp4 {

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
