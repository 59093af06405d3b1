// What stays as it is when a model is quantised, by the names of its tensors: what the owners of the schemes keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fp4 {

struct KeepRule {
  const char* name;    // pattern of the tensors' names, with * and ? and [..]
  const char* doc;     // what it keeps, as results say it
  const char* source;  // whose tool keeps it
  // What transformers calls such a module where the file calls it otherwise (a glob of modules); "": no other name.
  const char* loaded = "";
};

// Model-Optimizer: modelopt_recipes/configs/ptq/units/default_disabled_quantizers.yaml (2026-08-21). llama.cpp:
// tensor_allows_quantization of src/llama-quant.cpp. A Linear class alone is quantised by both, so that embeddings and
// convolutions, which are of other classes, stay.
inline constexpr KeepRule keep_rules[] = {
    {"*embed*", "embedding", "Model-Optimizer: nn.Embedding"},
    {"*embd*", "embedding", "GGUF token_embd, position_embd"},
    {"wte.*", "embedding", "GPT-2"},
    {"*.wte.*", "embedding", "GPT-2, Falcon, MPT"},
    {"wpe.*", "embedding", "GPT-2"},
    {"*.wpe.*", "embedding", "GPT-2"},
    {"shared.weight", "embedding", "T5"},
    {"*token_types*", "embedding", "llama.cpp: BERT's token types"},
    {"*lm_head*", "head", "Model-Optimizer"},
    {"head.weight", "head", "DeepSeek"},
    {"*.head.weight", "head", "DeepSeek's MTP"},
    {"score.weight", "head", "sequence classifiers of transformers"},
    {"*.score.weight", "head", "sequence classifiers of transformers"},
    {"classifier.*", "head", "classifiers of transformers"},
    {"output.weight", "head", "Model-Optimizer, GGUF"},
    {"*output_layer*", "head", "Model-Optimizer"},
    {"*proj_out.*", "head", "Model-Optimizer"},
    {"mtp.*", "multi-token prediction", "Model-Optimizer"},
    {"*norm*", "norm", "llama.cpp"},
    {"*router*", "router", "Model-Optimizer"},
    {"*.gate.*", "router", "Model-Optimizer: mlp.gate, block_sparse_moe.gate; DeepSeek: ffn.gate", "*router*"},
    {"*shared_expert_gate*", "router", "Model-Optimizer: Qwen's gate of shared experts"},
    {"*ffn_gate_inp*", "router", "llama.cpp"},
    {"*linear_attn.in_proj_[ab].*", "gate of linear attention", "Model-Optimizer"},
    {"*bias", "bias", "llama.cpp: names that end in weight alone"},
    {"*conv[._0-9]*", "convolution", "Model-Optimizer: linear_attn.conv1d, mixer.conv1d; llama.cpp: ssm_conv1d"},
    {"*vision*", "vision or audio", "Model-Optimizer: vision_tower, vision_model, embed_vision"},
    {"*visual*", "vision or audio", "Model-Optimizer: Qwen-VL"},
    {"*multi_modal_projector*", "vision or audio", "Model-Optimizer: Llama 4, Mistral 3"},
    {"*mm_projector*", "vision or audio", "LLaVA"},
    {"*image_newline*", "vision or audio", "LLaVA-NeXT"},
    {"*audio_tower*", "vision or audio", "Qwen-Omni, Gemma 3n"},
    {"v.*", "vision or audio", "llama.cpp: mmproj files"},
    {"mm.*", "vision or audio", "llama.cpp: mmproj files"},
    {"a.*.blk.*", "vision or audio", "llama.cpp: mmproj files"},
    {"*lora_*", "LoRA", "Model-Optimizer: QLoRA's adapters"},
    {"*altup*", "small matrix", "llama.cpp: Gemma 3n"},
    {"*laurel*", "small matrix", "llama.cpp: Gemma 3n"},
    {"*per_layer_model_proj*", "small matrix", "llama.cpp: Gemma 3n"},
    {"*time_mix_*", "small matrix", "llama.cpp: RWKV"},
    {"*attn_rel_b*", "small matrix", "llama.cpp: T5"},
    {"*relative_attention_bias*", "embedding", "T5: nn.Embedding of positions"},
    {"*position_bias*", "embedding", "positions relative to each other: Swin, BEiT"},
    {"*per_layer_input_gate*", "small matrix", "llama.cpp: Gemma 3n"},
    {"*per_layer_projection*", "small matrix", "llama.cpp: Gemma 3n"},
    {"*indexer.weights_proj*", "small matrix", "DeepSeek V3.2: stays in bf16"},
    {"*img_in.*", "input or output of a diffusion model", "Black Forest Labs: Flux"},
    {"*txt_in.*", "input or output of a diffusion model", "Black Forest Labs: Flux"},
    {"*time_in.*", "input or output of a diffusion model", "Black Forest Labs: Flux"},
    {"*vector_in.*", "input or output of a diffusion model", "Black Forest Labs: Flux"},
    {"*guidance_in.*", "input or output of a diffusion model", "Black Forest Labs: Flux"},
    {"*final_layer.*", "input or output of a diffusion model", "Black Forest Labs: Flux"},
};

// Weights of one model_type of config.json that stay.
struct ArchitectureRule {
  const char* name;  // pattern, as above
  const char* doc;
  const char* source;
  const char* model_types;  // between spaces
};
inline constexpr const char* conv1d_models = " gpt2 openai-gpt imagegpt decision_transformer ";
inline constexpr ArchitectureRule architecture_rules[] = {
    {"*.c_attn.weight", "Conv1D [in, out]", "transformers: GPT-2's layers are no Linear", conv1d_models},
    {"*.q_attn.weight", "Conv1D [in, out]", "transformers: GPT-2's layers are no Linear", conv1d_models},
    {"*.c_proj.weight", "Conv1D [in, out]", "transformers: GPT-2's layers are no Linear", conv1d_models},
    {"*.c_fc.weight", "Conv1D [in, out]", "transformers: GPT-2's layers are no Linear", conv1d_models},
};

// Why a tensor stays by what config.json says of the model: a rule above, or layers.N behind the last of
// num_hidden_layers, which predicts tokens ahead (DeepSeek V3, GLM 4, Step). "" where nothing keeps it.
std::string reason_of_architecture(const std::string& model_type, std::optional<std::uint64_t> layers,
                                   const std::string& name);

// The first rule that keeps a tensor; nullptr where none does.
const KeepRule* keep_rule_of(const std::string& name);

// Why a tensor of so many dimensions stays as it is when a model is quantised, as results say it: a rule above, or a
// convolution; empty where nothing keeps it. `is_quantised`: its file holds it in few bits already.
std::string reason_of_rules(const std::string& name, size_t dimensions, bool is_quantised);

// Whether a tensor belongs to routed experts (experts.3.w1.weight, experts.down_proj, ffn_up_exps.weight; not
// shared_experts).
bool is_expert(const std::string& name);

bool has_match(const std::vector<std::string>& patterns, const std::string& name);

// Patterns that match each of `wanted` and none of `others`: a digit run becomes *, where nothing else matches then.
// To be shown as words of --keep.
std::vector<std::string> patterns_for(const std::vector<std::string>& wanted, const std::vector<std::string>& others);

}  // namespace fp4
