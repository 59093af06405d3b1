#include "sweeps/grid_configs.h"

#include "src/error.h"
#include "src/words.h"
#include "sweeps/recipe_overlay.h"

namespace fp4::sweeps {

GridConfigs::GridConfigs(const Grid& grid, const Simulator& simulator, int steps)
    : grid_(grid), simulator_(simulator), steps_(steps), base_(named_base()) {
  for (const Axis& axis : grid.axes) {
    for (const Json& value : axis.values) remember(axis.kind, value);
  }
  for (const auto& rule : grid.include) {
    for (const auto& [key, value] : rule) {
      if (key == "recipe") remember(AxisKind::recipe, value);
      if (is_one_of(gemm_names, key)) remember(AxisKind::gemm, value);
    }
  }
  for (const std::string& name : grid.references) remember(AxisKind::recipe, name);
}

Json GridConfigs::given(const std::string& task, const Choice& choice, std::string& recipe_name) const {
  Json recipe = base_;
  recipe_name = base_name_;
  for (const bool first : {true, false}) {
    for (const auto& [axis, value] : choice) {
      if ((axis->kind == AxisKind::recipe) == first) apply(recipe, *axis, *value, recipe_name);
    }
  }
  return config(task, choice, std::move(recipe));
}

Json GridConfigs::reference(const Json& canonical, const std::string& name) const {
  return {{"task", canonical["task"]}, {"train", canonical["train"]}, {"recipe", recipes_.at(name)}};
}

Json GridConfigs::named_base() {
  if (grid_.base.is_string()) {
    base_name_ = grid_.base.get<std::string>();
    return simulator_.recipe(base_name_);
  }
  if (!grid_.base.is_object() || !grid_.base.contains("recipe")) {
    throw Error("grid " + grid_.name + R"(: base: expected a recipe's name or {"recipe": NAME, PATH: VALUE, ..})");
  }
  base_name_ = grid_.base["recipe"].get<std::string>();
  Json recipe = simulator_.recipe(base_name_);
  for (const auto& [path, value] : grid_.base.items()) {
    if (path == "recipe") continue;
    if (is_one_of(gemm_names, path)) {
      lay_over(recipe[path], value, 1);
    } else {
      set_recipe_path(recipe, path, value);
    }
  }
  return recipe;
}

void GridConfigs::remember(AxisKind kind, const Json& value) {
  if (!value.is_string() || (kind != AxisKind::recipe && kind != AxisKind::gemm)) return;
  std::string name = value.get<std::string>();
  if (kind == AxisKind::gemm) {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos || !is_one_of(gemm_names, name.substr(dot + 1))) {
      throw Error("grid " + grid_.name + ": a whole GEMM is RECIPE.fprop, RECIPE.dgrad or RECIPE.wgrad, not '" + name +
                  "'");
    }
    name.resize(dot);
  }
  if (!recipes_.contains(name)) recipes_[name] = simulator_.recipe(name);
}

void GridConfigs::apply(Json& recipe, const Axis& axis, const Json& value, std::string& recipe_name) const {
  switch (axis.kind) {
    case AxisKind::recipe:
      if (value.is_string()) {
        recipe_name = value.get<std::string>();
        recipe = recipes_.at(recipe_name);
      } else {
        lay_over(recipe, value, 0);
      }
      return;
    case AxisKind::gemm:
      if (value.is_string()) {
        const std::string name = value.get<std::string>();
        const size_t dot = name.rfind('.');
        recipe[axis.path] = recipes_.at(name.substr(0, dot))[name.substr(dot + 1)];
      } else {
        lay_over(recipe[axis.path], value, 1);
      }
      return;
    case AxisKind::path: return set_recipe_path(recipe, axis.path, value);
    case AxisKind::task:
    case AxisKind::train: return;
  }
}

Json GridConfigs::config(const std::string& task, const Choice& choice, Json recipe) const {
  Json parameters = {{"name", task}};
  Json train = grid_.train;
  if (const auto own = grid_.train_of_task.find(task); own != grid_.train_of_task.end()) train.update(own->second);
  for (const auto& [axis, value] : choice) {
    if (axis->kind == AxisKind::train) set_at(train, split(axis->path, '.'), 1, *value);
    if (axis->kind != AxisKind::task) continue;
    const std::vector<std::string> parts = split(axis->path, '.');
    if (parts[1] != "*" && parts[1] != task) continue;  // dead on this task
    if (parts[1] == "*" && !simulator_.task_has(task, axis->path.substr(7))) continue;
    set_at(parameters, parts, 2, *value);
  }
  if (steps_ > 0) train["steps"] = steps_;
  return {{"task", std::move(parameters)}, {"recipe", std::move(recipe)}, {"train", std::move(train)}};
}

}  // namespace fp4::sweeps
