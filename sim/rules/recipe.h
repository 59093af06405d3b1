// Decides: recipes as JSON. A recipe is a file of sweeps/recipes (or a user's file or object):
//   {"name": .., "doc": .., "source": .., "deviations": .., "base": "mxfp4",
//    "all": {..}, "fprop": {"a": {..}, "b": {..}, "*": {..}, "hadamard": {..}, "accumulator": ..}, "dgrad": ..,
//    "wgrad": .., "quantise": true, "sparse": "none", "layers": "all" | {"skip_last": 0.15} | {"names": [..]} |
//    [rules], "phases": [..], "weights": {..}, "ptq": {..}, "attn": {..}, "calls": {..}, "optimizer": "",
//    "loss_scaling": false}
// `base` names another recipe to start from (default fp32), "all" applies to the three products before the single
// ones, "*" to both operands. NAME@GEMM is that product of NAME, the other two in bf16;
// NAME@weights keeps the forward product's weights alone.
#pragma once

#include <string>

#include "sim/rules/config.h"
#include "sim/rules/schedule.h"
#include "src/arith/spec_text.h"

namespace fp4::sim {

/// `given`: a name, NAME@GEMM, the path of a .json file, or an object. Throws Error for unknown words; `place` opens
/// the messages about an object, whose fields are noted in `notes` (src/text/field_notes.h).
TrainingRecipe recipe_from_json(const Json& given, const std::string& place = "recipe", FieldNotes* notes = nullptr);

/// Canonical JSON: every field, dead ones at their defaults; reading it back gives the same recipe.
Json to_json(const TrainingRecipe& recipe);
TrainingRecipe canonical(TrainingRecipe recipe);

/// Why a recipe is impossible; empty when it is fine.
std::string invalid_reason(const TrainingRecipe& recipe);

/// The words of the optimizers, in the order of Optimizer::Kind (sim/train/optim.h).
const std::vector<std::string>& optimizer_words();

/// Names of the recipes that the program carries, sorted.
std::vector<std::string> recipe_names();

}  // namespace fp4::sim
