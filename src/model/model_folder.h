// The folder that a whole model is written to, but for its weights: config.json and its like for the engine that loads
// the scheme, tokenizer and the rest as they were.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/model/model_plan.h"

namespace fp4 {

// The documents that stand beside the weights, config.json (and hf_quant_config.json) made from the source's and from
// what becomes of each tensor, and the other files of the source folder, which are copied. Nothing where a GGUF is
// written, which holds its own metadata; from a single file config.json beside it is not taken. Errors name the file.
void plan_folder(ModelPlan& model);

// __metadata__ of a shard that is written: the source's without what describes its old format, but for the marks of
// layers that stay as they are (_quantization_metadata); "format" is "pt" where the source does not say.
std::map<std::string, std::string> shard_metadata(const std::string& file, const std::vector<Plan>& plans);

}  // namespace fp4
