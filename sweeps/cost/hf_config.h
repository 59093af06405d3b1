// Decides: what a config.json of Hugging Face says of a model's sizes.
#pragma once

#include <string>

#include "sweeps/cost/model.h"

namespace fp4::cost {

/// Whether the object is one: it names a `model_type` and no `linears`.
bool is_hf_config(const Json& object);
/// The model, in steps of eight micro-batches of one sequence of at most 8192 tokens. Throws Error for a field that is
/// missing, and for a network of another kind.
Model model_from_hf(const Json& object, const std::string& place);

}  // namespace fp4::cost
