// What engines do with routed experts of a checkpoint, by scheme and model_type: they fill stacks of experts in their
// own way, or not at all, and say so at most in a warning.
#pragma once

#include <cstdint>
#include <string>

namespace fp4 {

enum class LoadsExperts : std::uint8_t { loads, without, refuses };

struct ExpertEngine {
  const char* scheme;  // the beginning of its name
  const char* engine;
  const char* model_types;  // between spaces; "*": every one
  LoadsExperts loads;
  const char* source;
};
inline constexpr const char* packed_families =
    " mixtral qwen2_moe qwen3_moe olmoe glm4_moe deepseek_v3 phimoe llama4 llama4_text ";
inline constexpr ExpertEngine expert_engines[] = {
    {"compressed_tensors", "transformers 5.12.1 with compressed-tensors 0.17.1", packed_families, LoadsExperts::without,
     "run: experts are one tensor of the module, which is missing; their packed parts are unexpected"},
    {"compressed_tensors", "vLLM", " mixtral qwen2_moe qwen3_moe olmoe glm4_moe deepseek_v3 ", LoadsExperts::loads,
     "by its code: FusedMoE with compressed-tensors NVFP4 and MXFP4 (2026-08); not run"},
    {"modelopt", "vLLM", " mixtral qwen2_moe qwen3_moe olmoe glm4_moe deepseek_v3 ", LoadsExperts::loads,
     "by its code: ModelOptNvFp4FusedMoE (2026-08); not run"},
    {"modelopt", "transformers 5.12.1", "*", LoadsExperts::refuses, "run: no quantizer of the method modelopt"},
    {"gpt_oss", "transformers 5.12.1", " gpt_oss ", LoadsExperts::loads, "run: values and logits equal (engines.md)"},
    {"deepseek", "vLLM", " deepseek_v4 ", LoadsExperts::loads,
     "by its code: deepseek_v4 quant_config.py (2026-08); not run"},
    {"deepseek", "transformers 5.12.1 on a CPU", " deepseek_v4 ", LoadsExperts::loads, "run (engines.md)"},
    {"fp8_block", "transformers 5.12.1 on a CPU", " mixtral qwen2_moe qwen3_moe deepseek_v4 ", LoadsExperts::loads,
     "run (engines.md)"},
};

// A sentence of what each engine does with them; "" where no row has the scheme.
std::string experts_note(const std::string& scheme, const std::string& model_type);

}  // namespace fp4
