// Models of the Llama family in GGUF: what llama.cpp calls their tensors and parameters. Source of all rows: llama.cpp
// build 11669, conversion/*.py and gguf-py/gguf/constants.py.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "src/files/gguf_entries.h"

namespace fp4 {

struct GgufArchitecture {
  const char* name;  // in "architectures" of config.json
  const char* doc;   // general.architecture
  const char* source;
  bool pairs_heads = false;     // rows of q and k: halves of a head become pairs
  bool adds_one = false;        // norms hold the weight less 1
  bool has_four_norms = false;  // two more a layer, around attention and feed-forward
  bool is_sparse = false;       // every layer has experts
  bool slides = false;          // sliding_window is used
  // Whether the graph multiplies by the factor of an NVFP4 tensor, STEM.scale. Others are computed as if it were 1:
  // build 11669 gave NaN for Qwen2 and Gemma, also from its own converter's file.
  bool takes_factors = false;
};
inline constexpr GgufArchitecture gguf_architectures[] = {
    {"LlamaForCausalLM", "llama", "conversion/llama.py", true, false, false, false, false, true},
    {"MistralForCausalLM", "llama", "conversion/llama.py", true, false, false, false, false, true},
    {"MixtralForCausalLM", "llama", "conversion/llama.py", true, false, false, true, false, true},
    {"Qwen2ForCausalLM", "qwen2", "conversion/qwen.py"},
    {"Qwen2MoeForCausalLM", "qwen2moe", "conversion/qwen.py", false, false, false, true},
    {"Qwen3ForCausalLM", "qwen3", "conversion/qwen.py", false, false, false, false, false, true},
    {"Qwen3MoeForCausalLM", "qwen3moe", "conversion/qwen.py", false, false, false, true, false, true},
    {"GemmaForCausalLM", "gemma", "conversion/gemma.py", false, true},
    {"Gemma2ForCausalLM", "gemma2", "conversion/gemma.py", false, true, true, false, true},
    {"Gemma3ForCausalLM", "gemma3", "conversion/gemma.py", false, true, true, false, true},
};

// The row of a config.json; Error, naming the file, for another architecture, with what converts it.
const GgufArchitecture& gguf_architecture_of(const std::string& file, const nlohmann::ordered_json& config);

// Columns of a head: head_dim, or hidden_size / num_attention_heads.
std::int64_t head_size_of(const nlohmann::ordered_json& config);

struct GgufName {
  std::string name;  // "blk.0.attn_q.weight"; "" for a tensor that llama.cpp makes itself (rotary tables, Gemma's head)
  int expert = -1;   // of a stack: its place
  std::int64_t heads = 0;  // rows of so many heads change from halves to pairs
  bool adds_one = false;
};

// Error, naming the tensor, for one that llama.cpp has no name for.
GgufName gguf_name_of(const GgufArchitecture& arch, const nlohmann::ordered_json& config, const std::string& tensor);

// general.* and the architecture's parameters. Error, naming file and key, for a missing one and for a rotary scaling
// that is not known.
void put_parameters(GgufEntries& entries, const GgufArchitecture& arch, const nlohmann::ordered_json& config,
                    const std::string& file, const std::string& name);

// Factors of the rotary frequencies, rope_freqs.weight, of Llama 3's scaling; empty without it.
std::vector<float> rotary_factors(const nlohmann::ordered_json& config);

}  // namespace fp4
