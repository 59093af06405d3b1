// What the engines that load a scheme read of a folder beside its weights: quantization_config of config.json, and
// hf_quant_config.json for Model-Optimizer's.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/model/model_tensors.h"

namespace fp4 {

// What an engine does with the inputs of quantised layers.
enum class Activations : std::uint8_t { none, dynamic, calibrated };
struct ActivationsInfo {
  Activations id;
  const char* name;
  const char* doc;
  const char* source;
};
inline constexpr ActivationsInfo activations_table[] = {
    {Activations::none, "none", "weights alone are FP4; inputs stay bf16 (W4A16)", "vLLM: W4A16_NVFP4, NVFP4A16"},
    {Activations::dynamic, "dynamic", "inputs are quantised with scales of their own at run time",
     "compressed-tensors MXFP4; DeepSeek's FP8"},
    {Activations::calibrated, "static", "inputs are quantised with a stored factor, which the source has to hold",
     "Model-Optimizer NVFP4: input_scale; compressed-tensors NVFP4: input_global_scale"},
};

// Weights that a loader takes as FP4: of any linear layer, of routed experts alone (other layers are of another type),
// or of stacks of experts alone (one tensor [experts, out, in]).
enum class Takes : std::uint8_t { linear, experts, stacks };

// What the loader of a scheme takes. NVFP4 inputs need a stored factor: engines multiply input_scale whether or not the
// file has one, so that NVFP4 without calibration is weight-only.
struct EngineRules {
  const char* scheme;
  Activations activations[2];  // accepted; the first is the default
  Takes takes;
  const char* inputs;  // the stored factor of inputs, which stands in the place of "weight"; "": none
  bool inputs_reciprocal;
  const char* source;
};
inline constexpr EngineRules engine_rules[] = {
    {"modelopt_nvfp4",
     {Activations::none, Activations::calibrated},
     Takes::linear,
     "input_scale",
     false,
     "Model-Optimizer export/quant_utils.py, vLLM quantization/modelopt.py (2026-08)"},
    {"compressed_tensors_nvfp4",
     {Activations::none, Activations::calibrated},
     Takes::linear,
     "input_global_scale",
     true,
     "compressed-tensors quant_scheme.py NVFP4A16, NVFP4 (2026-08)"},
    {"compressed_tensors_mxfp4",
     {Activations::none, Activations::dynamic},
     Takes::linear,
     "",
     false,
     "compressed-tensors quant_scheme.py MXFP4A16, MXFP4 (2026-08)"},
    {"modelopt_mxfp4",
     {Activations::none, Activations::none},
     Takes::linear,
     "",
     false,
     "Model-Optimizer export/quant_utils.py (2026-08)"},
    {"gpt_oss_mxfp4",
     {Activations::none, Activations::none},
     Takes::stacks,
     "",
     false,
     "transformers quantizer_mxfp4.py, config.json of gpt-oss (2026-07)"},
    {"deepseek_mxfp4",
     {Activations::dynamic, Activations::dynamic},
     Takes::experts,
     "",
     false,
     "vLLM deepseek_v4 quant_config.py: FP8 layers, experts by expert_dtype (2026-08)"},
    {"ggml_mxfp4", {Activations::none, Activations::none}, Takes::linear, "", false, "llama.cpp (2026-10)"},
    {"ggml_nvfp4", {Activations::none, Activations::none}, Takes::linear, "", false, "llama.cpp (2026-10)"},
};

const EngineRules& engine_rules_of(const CheckpointScheme& scheme);

// A word of activations_table that the scheme's loader takes; "": its default. Error, which `place` opens, with the
// reason and the accepted words.
Activations activations_of(const std::string& place, const std::string& word, const CheckpointScheme& scheme);

// Names of modules: "model.layers.0.mlp.up_proj".
struct ConfigJob {
  const CheckpointScheme* scheme = nullptr;
  Activations activations = Activations::none;
  std::vector<std::string> quantised;
  std::vector<std::string> left;  // matrices that stay in a real type
};

// config.json of the source with the scheme's quantization_config in the place of the old one.
nlohmann::ordered_json quantised_config(nlohmann::ordered_json config, const ConfigJob& job);

// hf_quant_config.json; null for schemes whose engines read none.
nlohmann::ordered_json model_optimizer_config(const ConfigJob& job);

// config.json without quantisation. Where FP4 weights remain (`remains`), decoded modules join the old list of those
// that are left.
nlohmann::ordered_json decoded_config(nlohmann::ordered_json config, const std::vector<std::string>& decoded,
                                      bool remains);

// The module of a tensor: "l.0.up.weight" -> "l.0.up"; a stack of experts without ".weight": "l.0.experts".
std::string module_of(const std::string& tensor);

// As Model-Optimizer writes exclude_modules: of each module that is left the shortest dotted prefix, with a star, under
// which nothing is quantised.
std::vector<std::string> prefix_patterns(std::vector<std::string> left, std::vector<std::string> quantised);

}  // namespace fp4
