// Laying values over a recipe's JSON: by path (`wgrad.*.rounding`), or object over object.
#pragma once

#include <string>
#include <vector>

#include "sweeps/training.h"

namespace fp4::sweeps {

extern const std::vector<std::string> gemm_names;  // fprop, dgrad, wgrad

// Sets object[parts[from]][parts[from + 1]].., making objects on the way.
void set_at(Json& object, const std::vector<std::string>& parts, size_t from, const Json& value);

// A path into a recipe, with * and x|y, and with both operands meant where none is named (`fprop.estimator`).
void set_recipe_path(Json& recipe, const std::string& path, const Json& value);

// Lays an object over a recipe (depth 0), a GEMM (1) or anything deeper; "*" stands for all GEMMs or both operands.
void lay_over(Json& target, const Json& patch, int depth);

}  // namespace fp4::sweeps
