// A Hugging Face folder as one GGUF: its tensors under llama.cpp's names and in llama.cpp's order of rows, its
// config.json and tokenizer as entries.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/model/gguf_names.h"
#include "src/model/model_plan.h"
#include "src/model/model_write.h"

namespace fp4 {

struct GgufModel {
  const GgufArchitecture* architecture = nullptr;
  nlohmann::ordered_json config = {};
  std::string file = {};  // config.json
};

// Set where a job writes GGUF from a folder of .safetensors with a config.json; Error, naming the file, for an
// architecture without names.
std::optional<GgufModel> gguf_model_of(const ModelJob& job, const std::vector<std::string>& files);

// The tensors as the GGUF has them: renamed (`whole`), rows of q and k in pairs, norms with their 1, experts of a layer
// as one stack, and the factors of rotary frequencies where the model scales them. Those that llama.cpp makes itself
// are left out. Error, naming the tensor, for one without a name and for a layer whose experts are not complete.
std::vector<ModelTensor> gguf_tensors(const GgufModel& model, std::vector<ModelTensor> tensors);

// Error where weights get a factor, STEM.scale, in a model that llama.cpp computes without; a note for an architecture
// of which that is not known. `model`: of a folder; null: of GGUF files, which say theirs.
void check_factors(const ModelJob& job, const std::vector<std::string>& files, const GgufModel* model,
                   const std::vector<Plan>& plans, std::vector<std::string>& notes);

// general.*, parameters and tokenizer; Error, naming file and place.
GgufMetadata gguf_metadata(const ModelJob& job, const GgufModel& model);

}  // namespace fp4
