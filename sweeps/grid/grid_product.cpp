#include "sweeps/grid/grid_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/text/error.h"
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
    if (axis.kind == AxisKind::task && task != "*" && !is_one_of(grid.tasks, task))
      throw unknown_word(axis.place, task, grid.tasks);
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
  for (size_t i = 0; i < digits.size(); ++i) {
    point.choice.emplace_back(&grid_.axes[i], &grid_.axes[i].values[digits[i]]);
  }
  for (const auto& rule : grid_.exclude) {
    if (std::all_of(rule.begin(), rule.end(), [&](const auto& entry) { return holds(entry, point, digits); })) {
      return false;
    }
  }
  return true;
}

void GridProduct::check_rule(const std::string& key, const Json& wanted, const std::string& place) const {
  std::vector<std::string> accepted = {"task"};
  for (const Axis& axis : grid_.axes) accepted.push_back(axis.path);
  if (!is_one_of(accepted, key)) throw unknown_word(place, key, accepted);
  const auto found = std::find_if(grid_.axes.begin(), grid_.axes.end(), [&](const Axis& a) { return a.path == key; });
  const std::vector<Json> values =
      found == grid_.axes.end() ? std::vector<Json>(grid_.tasks.begin(), grid_.tasks.end()) : found->values;
  const std::vector<std::string>& labels = found == grid_.axes.end() ? grid_.tasks : found->labels;
  // A rule with a value that the axis does not have would exclude nothing, silently.
  const bool is_list = wanted.is_array() && std::find(values.begin(), values.end(), wanted) == values.end();
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

}  // namespace fp4::sweeps
