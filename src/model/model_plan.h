// Everything about a model that is decided before a weight is read: data alone, which `quantize --dry-run` prints,
// model_stream.h turns into bytes, model_write.h puts into a folder and read_back.cpp compares with what lies there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/model/tensor_plan.h"

namespace fp4 {

struct PlannedShard {
  std::string source, name;                          // the file that is read; what it is called in the output
  std::vector<const TensorPlan*> tensors = {};       // in the order of the file
  std::map<std::string, std::string> metadata = {};  // of a .safetensors
  std::optional<GgufMetadata> gguf = {};             // of a .gguf
};

struct ModelPlan {
  ModelJob job;
  QuantSpec spec = {};
  PlanFacts facts = {};
  std::vector<ModelTensor> tensors = {};
  std::vector<TensorPlan> plans = {};  // of them, in their order
  std::vector<PlannedShard> shards = {};
  std::map<std::string, std::string> documents = {};  // index, config.json and its like: name and text
  std::vector<std::string> side_files = {};           // copied as they are
  std::vector<std::string> notes = {};                // what a person should hear

  explicit ModelPlan(ModelJob wanted) : job(std::move(wanted)) {}
  ModelPlan(ModelPlan&&) = default;
  ModelPlan(const ModelPlan&) = delete;  // plans point to tensors, shards to plans
};

// Errors name file, tensor and reason: a pattern that no tensor has, a tensor that a pattern names and that has no
// values or no rows of whole blocks, a spec that the scheme cannot hold, an output that is the source or holds weights
// of another model. A file that is not the one of fp4sim.json is the better reason where a file is damaged.
ModelPlan plan_model(const ModelJob& job);

// Weights that share a tensor scale (fused_groups.h). Gives quantised weights the number of their group, and notes
// those that are carried with factors of their own although engines join them. No groups where the spec has no tensor
// scale.
void set_groups(ModelPlan& model);

// Carries the MXFP4 weights of a model that becomes NVFP4, where no words say how to quantise: weights of a group (set
// before) share the power. Notes say how many are exact, and of each other one how many blocks are rounded and what it
// costs. Where the scheme has no factor, a weight that does not fit is quantised as before.
void carry_exactly(ModelPlan& model);

// The folder that a whole model is written to, but for its weights (model_folder.cpp): config.json and its like for the
// engine that loads the scheme, tokenizer and the rest as they were.
//
// The documents that stand beside the weights, config.json (and hf_quant_config.json) made from the source's and from
// what becomes of each tensor, and the other files of the source folder, which are copied. Nothing where a GGUF is
// written, which holds its own metadata; from a single file config.json beside it is not taken. Errors name the file.
void plan_folder(ModelPlan& model);

// __metadata__ of a shard that is written: the source's without what describes its old format, but for the marks of
// layers that stay as they are (_quantization_metadata); "format" is "pt" where the source does not say.
std::map<std::string, std::string> shard_metadata(const std::string& file, const std::vector<TensorPlan>& plans);

// What each engine does with routed experts of a scheme, and says at most in a warning (engine_limits.cpp).
std::string experts_note(const std::string& scheme, const std::string& model_type);

// Error where weights get a factor, STEM.scale, in a model that llama.cpp computes without; a note for an architecture
// of which that is not known.
void check_factors(const ModelJob& job, const std::vector<std::string>& files, const std::vector<TensorPlan>& plans,
                   std::vector<std::string>& notes);

}  // namespace fp4
