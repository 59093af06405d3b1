// Whether a GGUF of a folder has the tensors that llama.cpp loads, in the shapes that config.json says.
#pragma once

#include <vector>

#include "src/model/gguf_model.h"

namespace fp4 {

// `tensors` under their GGUF names. Error, naming config.json and tensor: one that is missing in a layer or at the
// ends, layers beyond num_hidden_layers, a shape that is not that of config.json.
void check_complete(const GgufModel& model, const std::vector<ModelTensor>& tensors);

}  // namespace fp4
