// Weights that share one tensor scale. Engines join some layers into one product and then have one factor for all of
// them: vLLM and SGLang take the largest, under which the codes of the others decode to other numbers.
#pragma once

#include <string>
#include <vector>

namespace fp4 {

struct FusedRow {
  const char* name;  // layers of one parent, by the last word of their names
  const char* doc;
  const char* source;
};

inline constexpr FusedRow fused_rows[] = {
    {"q_proj k_proj v_proj", "qkv_proj", "vLLM packed_modules_mapping of Llama, Qwen, Mistral, Gemma, Phi"},
    {"wq wk wv", "qkv", "Meta's and Mistral's own names"},
    {"query key value", "qkv", "vLLM: BERT, Falcon"},
    {"to_q to_k to_v", "qkv", "diffusers"},
    {"add_q_proj add_k_proj add_v_proj", "qkv of the text", "diffusers: Flux, SD3"},
    {"attn_q attn_k attn_v", "qkv", "GGUF names of the first row"},
    {"q_a_proj kv_a_proj_with_mqa", "fused_qkv_a_proj", "vLLM: DeepSeek V2, V3"},
    {"wq_a wkv", "fused_wqa_wkv", "vLLM: DeepSeek V4"},
    {"in_proj_qkv in_proj_z", "in_proj_qkvz", "vLLM: Qwen3.5"},
    {"gate_proj up_proj", "gate_up_proj", "vLLM packed_modules_mapping; experts: w13"},
    {"w1 w3", "w13", "vLLM: Mixtral, DeepSeek V4, Mistral's own names"},
    {"ffn_gate ffn_up", "gate_up", "GGUF names of gate_proj, up_proj"},
    {"ffn_gate_exps ffn_up_exps", "gate_up of experts", "GGUF names"},
    {"ffn_gate_shexp ffn_up_shexp", "gate_up of shared experts", "GGUF names"},
};

// How weights are put together. `member`: name pattern with one * at most; weights of one row whose * stands for the
// same text share a factor.
struct FuseRules {
  bool is_auto = true;                                // fused_rows, and the experts of a layer
  std::vector<std::vector<std::string>> groups = {};  // of a file
};

// auto, none, or a file {"groups": [["*.q_proj", "*.k_proj"], ..]} of module names. Error, which `place` opens.
FuseRules fuse_rules_of(const std::string& place, const std::string& word);

// The group of each module ("model.layers.0.mlp.up_proj"), the same number for those that share a factor, counted from
// 0; -1 for a module that has one of its own. Error for a pattern of a file that no module has. Experts of one layer
// share as well: experts.3.w1 and experts.0.w3.
std::vector<int> fused_groups(const FuseRules& rules, const std::vector<std::string>& modules);

}  // namespace fp4
