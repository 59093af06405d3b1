// What the engines that load a scheme read of a folder beside its weights: quantization_config of config.json, and
// hf_quant_config.json for Model-Optimizer's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/model/model_job.h"

namespace fp4 {

// A word of activations_table that the scheme's loader takes; "": its default. Error, which `place` opens, with the
// reason and the accepted words.
Activations activations_of(const std::string& place, const std::string& word, const CheckpointScheme& scheme);

// Names of modules: "model.layers.0.mlp.up_proj".
struct ConfigJob {
  const CheckpointScheme* scheme = nullptr;
  Activations activations = Activations::none;
  std::vector<std::string> quantised;
  std::vector<std::string> left;  // matrices that stay in a real type
  CacheEntries cache = {};
  bool has_towers = false;  // of vision or audio: transformers calls modules otherwise than the file
};

// config.json of the source with the scheme's quantization_config in the place of the old one.
nlohmann::ordered_json quantised_config(nlohmann::ordered_json config, const ConfigJob& job);

// hf_quant_config.json; null for schemes whose engines read none.
nlohmann::ordered_json model_optimizer_config(const ConfigJob& job);

// Adds modules to the list of those that an entry leaves out; `usual`: the list's name where the entry has none.
void leave_out(nlohmann::ordered_json& entry, const std::vector<std::string>& modules, const char* usual);

// config.json without quantisation. Where FP4 weights remain (`remains`), decoded modules join the old list of those
// that are left.
nlohmann::ordered_json decoded_config(nlohmann::ordered_json config, const std::vector<std::string>& decoded,
                                      bool remains);

// The module of a tensor: "l.0.up.weight" -> "l.0.up"; a stack of experts without ".weight": "l.0.experts".
std::string module_of(const std::string& tensor);

}  // namespace fp4
