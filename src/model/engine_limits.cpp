#include <fmt/format.h>

#include <algorithm>

#include "src/model/model_plan.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

// What engines do with routed experts of a checkpoint, by scheme and model_type: they fill stacks of experts in their
// own way, or not at all, and say so at most in a warning.
enum class LoadsExperts : std::uint8_t { loads, without, refuses };

struct ExpertEngine {
  const char* scheme;  // the beginning of its name
  const char* engine;
  const char* model_types;  // between spaces; "*": every one
  LoadsExperts loads;
  const char* source;
};
constexpr const char* packed_families =
    " mixtral qwen2_moe qwen3_moe olmoe glm4_moe deepseek_v3 phimoe llama4 llama4_text ";
constexpr ExpertEngine expert_engines[] = {
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

// Whether the graph of an architecture multiplies by the factor of an NVFP4 tensor, STEM.scale. The others compute as
// if it were 1: build 11669 gave NaN for Qwen2 and Gemma, also from its own converter's file.
struct GgufArchitecture {
  const char* name;  // general.architecture
  bool takes_factors;
};
constexpr GgufArchitecture gguf_architectures[] = {
    {"llama", true},     {"qwen3", true},  {"qwen3moe", true}, {"qwen2", false},
    {"qwen2moe", false}, {"gemma", false}, {"gemma2", false},  {"gemma3", false},
};

}  // namespace

std::string experts_note(const std::string& scheme, const std::string& model_type) {
  std::string known;
  for (const ExpertEngine& row : expert_engines) {
    const std::string types = row.model_types;
    if (!scheme.starts_with(row.scheme) || (types != "*" && types.find(" " + model_type + " ") == std::string::npos))
      continue;
    known += fmt::format("{}{} {}", known.empty() ? "" : "; ", row.engine,
                         row.loads == LoadsExperts::loads     ? "loads them"
                         : row.loads == LoadsExperts::without ? "loads the model without them: they stay random"
                                                              : "refuses the scheme");
  }
  if (known.empty()) known = "which engines load them is not known";
  return fmt::format("experts{}: {}", model_type.empty() ? "" : " of " + model_type, known);
}

void check_factors(const ModelJob& job, const std::vector<std::string>& files, const std::vector<TensorPlan>& plans,
                   std::vector<std::string>& notes) {
  const auto first = std::find_if(plans.begin(), plans.end(), [](const TensorPlan& p) { return p.has_factor; });
  if (first == plans.end()) return;
  constexpr size_t type_and_length = 12;  // in front of a text
  std::string name;
  for (const auto& [key, value] : entries_of(open_file(files.front())))
    if (key == "general.architecture" && value.size() > type_and_length) name = value.substr(type_and_length);
  if (name.empty() || name == "unknown") return;
  const auto* row = std::find_if(std::begin(gguf_architectures), std::end(gguf_architectures),
                                 [&](const GgufArchitecture& a) { return name == a.name; });
  if (row == std::end(gguf_architectures)) {
    notes.push_back(
        fmt::format("whether llama.cpp multiplies by the factors of tensors (STEM.scale) in models of {} is "
                    "not known; --spec {} writes none",
                    name, job.scheme->spec));
  } else if (!row->takes_factors) {
    throw Error(
        fmt::format("{}: {} has a factor, and llama.cpp computes {} as if it were 1; --spec {} quantises without",
                    first->tensor->file(), first->tensor->name, name, job.scheme->spec));
  }
}

}  // namespace fp4
