// Everything about a model that is decided before a weight is read: data alone, which `quantize --dry-run` prints,
// model_stream.h turns into bytes, model_write.h puts into a folder and read_back.h compares with what lies there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/files/gguf.h"
#include "src/model/tensor_plan.h"

namespace fp4 {

struct PlannedShard {
  std::string source, name;                          // the file that is read; what it is called in the output
  std::vector<const Plan*> tensors = {};             // in the order of the file
  std::map<std::string, std::string> metadata = {};  // of a .safetensors
  std::optional<GgufMetadata> gguf = {};             // of a .gguf
};

struct ModelPlan {
  ModelJob job;
  QuantSpec spec = {};
  PlanFacts facts = {};
  std::vector<ModelTensor> tensors = {};
  std::vector<Plan> plans = {};  // of them, in their order
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

// The job's spec; Error when the scheme cannot hold it. A default one without a scheme.
QuantSpec model_spec(const ModelJob& job);

}  // namespace fp4
