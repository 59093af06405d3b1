// What llama.cpp asks of a GGUF that holds FP4.
#pragma once

#include <string>
#include <vector>

#include "src/model/tensor_plan.h"

namespace fp4 {

// Whether the graph of an architecture multiplies by the factor of an NVFP4 tensor, STEM.scale. The others compute as
// if it were 1: build 11669 gave NaN for Qwen2 and Gemma, also from its own converter's file.
struct GgufArchitecture {
  const char* name;  // general.architecture
  bool takes_factors;
};
inline constexpr GgufArchitecture gguf_architectures[] = {
    {"llama", true},     {"qwen3", true},  {"qwen3moe", true}, {"qwen2", false},
    {"qwen2moe", false}, {"gemma", false}, {"gemma2", false},  {"gemma3", false},
};

// Error where weights get a factor, STEM.scale, in a model that llama.cpp computes without; a note for an architecture
// of which that is not known.
void check_factors(const ModelJob& job, const std::vector<std::string>& files, const std::vector<Plan>& plans,
                   std::vector<std::string>& notes);

}  // namespace fp4
