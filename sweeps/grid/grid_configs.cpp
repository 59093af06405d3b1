#include "sweeps/grid/grid_configs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/grid/recipe_overlay.h"

namespace fp4::sweeps {

static bool matches(const Json& wanted, const Json& value, const std::string& label) {
  if (wanted.is_array() && !(value.is_array() && wanted == value)) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const Json& one) { return matches(one, value, label); });
  }
  return wanted == value || (wanted.is_string() && wanted.get<std::string>() == label);
}

GridProduct::GridProduct(const Grid& grid, const Simulator& simulator) : grid_(grid) {
  for (const std::string& task : grid.tasks) {
    at_place(grid.place + ": task", [&] { return simulator.task_has(task, ""); });  // an unknown task throws
  }
  size_ = grid.tasks.size();
  for (const Axis& axis : grid.axes) {
    size_ *= axis.values.size();
    if (size_ > 20'000'000) throw Error(fmt::format("{}: a product of more than 20 million points", grid.place));
    const std::string task = axis.kind == AxisKind::task ? split(axis.path, '.')[1] : "*";
    const std::string parameter = axis.kind == AxisKind::task ? axis.path.substr(6 + task.size()) : "";
    const auto has = [&](const std::string& name) { return simulator.task_has(name, parameter); };
    if (axis.kind == AxisKind::task && task != "*") accepted_index(axis.place, task, grid.tasks);
    if (axis.kind == AxisKind::task && !std::any_of(grid.tasks.begin(), grid.tasks.end(), has))
      throw Error(axis.place + ": none of the grid's tasks has this parameter");
  }
  for (size_t i = 0; i < grid.exclude.size(); ++i)
    for (const auto& [key, value] : grid.exclude[i])
      check_rule(key, value, fmt::format("{}: exclude[{}]", grid.place, i));
}

bool GridProduct::point(size_t index, Point& point) const {
  point.choice.clear();
  point.labels.assign(grid_.axes.size(), "");
  std::vector<size_t> digits(grid_.axes.size());
  for (size_t i = grid_.axes.size(); i-- > 0;) {
    digits[i] = index % grid_.axes[i].values.size();
    index /= grid_.axes[i].values.size();
    point.labels[i] = grid_.axes[i].labels[digits[i]];
  }
  point.task = grid_.tasks[index];
  for (size_t i = 0; i < digits.size(); ++i)
    point.choice.emplace_back(&grid_.axes[i], &grid_.axes[i].values[digits[i]]);
  for (const auto& rule : grid_.exclude)
    if (std::all_of(rule.begin(), rule.end(), [&](const auto& entry) { return holds(entry, point, digits); }))
      return false;
  return true;
}

void GridProduct::check_rule(const std::string& key, const Json& wanted, const std::string& place) const {
  std::vector<std::string> accepted = {"task"};
  for (const Axis& axis : grid_.axes) accepted.push_back(axis.path);
  accepted_index(place, key, accepted);
  const auto found = std::find_if(grid_.axes.begin(), grid_.axes.end(), [&](const Axis& a) { return a.path == key; });
  const std::vector<Json> values =
      found == grid_.axes.end() ? std::vector<Json>(grid_.tasks.begin(), grid_.tasks.end()) : found->values;
  const std::vector<std::string>& labels = found == grid_.axes.end() ? grid_.tasks : found->labels;
  // A rule with a value that the axis does not have would exclude nothing, silently.
  const bool is_list = wanted.is_array() && !contains(values, wanted);
  for (const Json& one : is_list ? wanted : Json::array({wanted})) {
    bool known = false;
    for (size_t i = 0; i < values.size(); ++i) known = known || matches(one, values[i], labels[i]);
    if (!known) throw unknown_word(place + "." + key, one.is_string() ? one.get<std::string>() : shown(one), labels);
  }
}

bool GridProduct::holds(const std::pair<const std::string, Json>& entry, const Point& point,
                        const std::vector<size_t>& digits) const {
  if (entry.first == "task") return matches(entry.second, point.task, point.task);
  for (size_t i = 0; i < grid_.axes.size(); ++i) {
    const Axis& axis = grid_.axes[i];
    if (axis.path == entry.first) return matches(entry.second, axis.values[digits[i]], axis.labels[digits[i]]);
  }
  return false;
}

GridConfigs::GridConfigs(const Grid& grid, const Simulator& simulator)
    : grid_(grid), simulator_(simulator), base_(named_base()) {
  const auto remember_axis = [&](const Axis& axis) {
    for (size_t i = 0; i < axis.values.size(); ++i) remember(axis.kind, axis.values[i], axis.places[i]);
  };
  for (const Axis& axis : grid.axes) remember_axis(axis);
  for (const Inclusion& inclusion : grid.include)
    for (const Axis& axis : inclusion.axes) remember_axis(axis);
  for (const std::string& name : grid.references) remember(AxisKind::recipe, name, grid.place + ": references");
  check();
}

// Base, training and every value of an axis, each by itself: a wrong word is told with its place in the file, before
// any point of the product.
void GridConfigs::check() const {
  std::string unused;
  for (const std::string& task : grid_.tasks) {
    at_place(grid_.place + ": base", [&] {
      return simulator_.canonical({{"task", {{"name", task}}}, {"recipe", base_}, {"train", Json::object()}});
    });
    const bool has_own = grid_.train_of_task.contains(task);
    at_place(grid_.place + (has_own ? ": train." + task : ""),
             [&] { return simulator_.canonical(given(task, {}, unused)); });
    const auto check_axis = [&](const Axis& axis) {
      for (size_t i = 0; i < axis.values.size(); ++i) {
        at_place(axis.places[i], [&] {
          try {
            return simulator_.canonical(given(task, {{&axis, &axis.values[i]}}, unused));
          } catch (const Error& e) {
            // A path of which the first word is known has a wrong value.
            const std::string first = axis.path.substr(0, axis.path.find('.'));
            if (first.empty() || e.word != first) throw;
            const std::string path = longer_path(task, axis, i);
            if (path.empty()) throw;
            throw Error("no field of a recipe is called '" + axis.path + "'; did you mean '" + path + "'?");
          }
        });
      }
    };
    for (const Axis& axis : grid_.axes) check_axis(axis);
    for (const Inclusion& inclusion : grid_.include)
      if (contains(inclusion.tasks, task))
        for (const Axis& axis : inclusion.axes) check_axis(axis);
  }
}

// "rounding" for "*.*.rounding", "lr" for "train.lr": a path that takes the value which the axis' own does not.
std::string GridConfigs::longer_path(const std::string& task, const Axis& axis, size_t value) const {
  if (axis.kind != AxisKind::path) return "";
  const auto takes = [&](const std::string& path, AxisKind kind) {
    Axis other = axis;
    other.path = path;
    other.kind = kind;
    std::string unused;
    try {
      simulator_.canonical(given(task, {{&other, &axis.values[value]}}, unused));
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  for (const char* start : {"*.*.", "*."})
    if (takes(start + axis.path, AxisKind::path)) return start + axis.path;
  if (takes("train." + axis.path, AxisKind::train)) return "train." + axis.path;
  return simulator_.task_has(task, axis.path) ? "task.*." + axis.path : "";
}

Json GridConfigs::given(const std::string& task, const Choice& choice, std::string& recipe_name) const {
  Json recipe = base_;
  recipe_name = base_name_;
  for (const bool first : {true, false})
    for (const auto& [axis, value] : choice)
      if ((axis->kind == AxisKind::recipe) == first) apply(recipe, *axis, *value, recipe_name);
  return config(task, choice, std::move(recipe));
}

Json GridConfigs::reference(const Json& canonical, const std::string& name) const {
  return {{"task", canonical["task"]}, {"train", canonical["train"]}, {"recipe", recipes_.at(name)}};
}

Json GridConfigs::named_base() {
  JsonReader base(grid_.base, grid_.place + ": base");
  const bool alone = grid_.base.is_string();
  if (!alone && !grid_.base.is_object())
    base.fail(R"(expected a recipe's name or {"recipe": NAME, PATH: VALUE, ..}, found )" + shown(grid_.base));
  base_name_ = (alone ? base : base.at("recipe")).text();
  Json recipe = recipes_[base_name_] = at_place(base.place(), [&] { return this->recipe(base_name_); });
  if (alone) return recipe;
  for (const auto& [path, value] : base.entries())
    if (path != "recipe")
      at_place(value.place(), [&, &path = path, &value = value] { set_recipe_path(recipe, path, value.json()); });
  return recipe;
}

std::map<std::string, Json> GridConfigs::recipes_of_files() const {
  std::map<std::string, Json> recipes = recipes_;
  std::erase_if(recipes, [](const auto& entry) { return !names_file(entry.first); });
  return recipes;
}

// A file in the current folder goes before one beside the grid.
Json GridConfigs::recipe(const std::string& word) const {
  namespace fs = std::filesystem;
  if (const auto kept = grid_.recipes.find(word); kept != grid_.recipes.end()) return kept->second;
  const std::string_view file = file_of_recipe(word);
  const fs::path folder = grid_.folder;
  std::error_code unreadable;  // then it is none
  const bool beside = !file.empty() && !fs::exists(file, unreadable) && fs::exists(folder / file, unreadable);
  return simulator_.recipe(beside ? (folder / word).string() : word);
}

void GridConfigs::remember(AxisKind kind, const Json& value, const std::string& place) {
  if (kind == AxisKind::branch || kind == AxisKind::eval) {
    // The trainer itself knows the others.
    const auto given = value.find("recipe");
    if (given == value.end() || !given->is_string() || !names_file(given->get_ref<const std::string&>())) return;
    return remember(AxisKind::recipe, *given, place);
  }
  if (kind == AxisKind::recipe && value.is_object() && value.contains("base")) {
    const Json& base = value.at("base");
    if (!base.is_string()) throw Error(place + ".base: expected a recipe's name, found " + shown(base));
    return remember(kind, base, place + ".base");
  }
  if (!value.is_string() || (kind != AxisKind::recipe && kind != AxisKind::gemm)) return;
  std::string name = value.get<std::string>();
  if (kind == AxisKind::gemm) {
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos || !contains(gemm_names, name.substr(dot + 1)))
      throw Error(place + ": a whole GEMM is RECIPE.fprop, RECIPE.dgrad or RECIPE.wgrad, found " + shown(value));
    name.resize(dot);
  }
  if (!recipes_.contains(name)) recipes_[name] = at_place(place, [&] { return recipe(name); });
}

void GridConfigs::apply(Json& recipe, const Axis& axis, const Json& value, std::string& recipe_name) const {
  switch (axis.kind) {
    case AxisKind::recipe:
      if (value.is_string()) {
        recipe_name = value.get<std::string>();
        recipe = recipes_.at(recipe_name);
      } else if (const auto base = value.find("base"); base != value.end()) {
        recipe_name = base->get<std::string>();  // checked by remember
        recipe = recipes_.at(recipe_name);
        Json changes = value;
        changes.erase("base");
        lay_over(recipe, changes, 0);
      } else {
        lay_over(recipe, value, 0);
      }
      return;
    case AxisKind::gemm:
      if (value.is_string()) {
        const std::string name = value.get<std::string>();
        const size_t dot = name.rfind('.');
        recipe[axis.path] = recipes_.at(name.substr(0, dot))[name.substr(dot + 1)];
        return;
      }
      [[fallthrough]];
    case AxisKind::path: return set_recipe_path(recipe, axis.path, value);
    case AxisKind::task:
    case AxisKind::train:
    case AxisKind::branch:
    case AxisKind::eval: return;
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
  Json config = {{"task", std::move(parameters)}, {"recipe", std::move(recipe)}, {"train", std::move(train)}};
  for (const auto& [axis, value] : choice) {
    if ((axis->kind != AxisKind::branch && axis->kind != AxisKind::eval) || value->empty()) continue;
    Json& word = (config[axis->path] = *value)["recipe"];
    if (word.is_string() && names_file(word.get_ref<const std::string&>())) word = recipes_.at(word);
  }
  return config;
}

}  // namespace fp4::sweeps
