#include "sweeps/grid/recipe_overlay.h"

#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "src/text/words.h"

namespace fp4::sweeps {

const std::vector<std::string> gemm_names = {"fprop", "dgrad", "wgrad"};

namespace {

const std::vector<std::string> operands = {"a", "b"};

// object[key]; what is no object becomes one. A wrong value of a file was refused before (GridConfigs::check).
Json& entry(Json& object, const std::string& key) {
  if (!object.is_object()) object = Json::object();
  return object[key];
}

}  // namespace

void set_at(Json& object, const std::vector<std::string>& parts, size_t from, const Json& value) {
  Json* at = &object;
  for (size_t i = from; i < parts.size(); ++i) at = &entry(*at, parts[i]);
  *at = value;
}

void set_recipe_path(Json& recipe, const std::string& path, const Json& value) {
  const std::vector<std::string> parts = split(path, '.');
  const std::vector<std::string> heads = parts[0] == "*" || parts[0] == "all" ? gemm_names : split(parts[0], '|');
  if (!contains(gemm_names, heads.front())) return set_at(recipe, parts, 0, value);
  if (parts.size() < 2) {
    if (!value.is_object()) throw Error("expected an object laid over a product, found " + shown(value));
    for (const std::string& gemm : heads) lay_over(recipe[gemm], value, 1);
    return;
  }
  const bool names_operand = parts[1] == "*" || contains(operands, split(parts[1], '|').front());
  const bool whole_gemm = parts[1] == "hadamard" || parts[1] == "accumulator" || parts[1] == "split";
  for (const std::string& gemm : heads) {
    if (whole_gemm) {
      if (parts.back() == "method") entry(recipe, gemm).erase("split");
      set_at(entry(recipe, gemm), parts, 1, value);
      continue;
    }
    const std::vector<std::string> sides = !names_operand || parts[1] == "*" ? operands : split(parts[1], '|');
    for (const std::string& side : sides) {
      Json& operand = entry(entry(recipe, gemm), side);
      if (parts.back() == "preset") operand = Json::object();
      set_at(operand, parts, names_operand ? 2 : 1, value);
    }
  }
}

void lay_over(Json& target, const Json& patch, int depth) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  // A preset settles every field of an operand, a method those of a split; fields kept from before would overrule it.
  if (!target.is_object() || patch.contains("preset") || patch.contains("method")) target = Json::object();
  for (const auto& [key, value] : patch.items()) {
    if ((key == "*" || (key == "all" && depth == 0)) && depth < 2) {
      for (const std::string& name : depth == 0 ? gemm_names : operands) lay_over(target[name], value, depth + 1);
    } else {
      lay_over(target[key], value, depth + 1);
    }
  }
}

}  // namespace fp4::sweeps
