#include "sweeps/grid_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/error.h"
#include "src/words.h"
#include "sweeps/recipe_overlay.h"

namespace fp4::sweeps {

namespace {

bool matches(const Json& wanted, const Json& value, const std::string& label) {
  if (wanted.is_array() && !(value.is_array() && wanted == value)) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const Json& one) { return matches(one, value, label); });
  }
  return wanted == value || (wanted.is_string() && wanted.get<std::string>() == label);
}

}  // namespace

GridProduct::GridProduct(const Grid& grid, const Simulator& simulator, int steps) : grid_(grid), steps_(steps) {
  for (const std::string& task : grid.tasks) simulator.task_has(task, "");  // an unknown task throws
  for (const Axis& axis : grid.axes) {
    size_ *= axis.values.size();
    const std::string task = axis.kind == AxisKind::task ? split(axis.path, '.')[1] : "*";
    const std::string parameter = axis.kind == AxisKind::task ? axis.path.substr(6 + task.size()) : "";
    const auto has = [&](const std::string& name) { return simulator.task_has(name, parameter); };
    if (axis.kind == AxisKind::task && task != "*" && !is_one_of(grid.tasks, task)) {
      throw unknown_word("grid " + grid.name + ": axis " + axis.path, task, grid.tasks);
    }
    if (axis.kind == AxisKind::task && !std::any_of(grid.tasks.begin(), grid.tasks.end(), has)) {
      throw Error("grid " + grid.name + ": axis " + axis.path + ": none of its tasks has the parameter '" + parameter +
                  "'");
    }
  }
  for (const auto& rule : grid.exclude) {
    for (const auto& [key, value] : rule) check_rule(key, value);
  }
  size_ *= grid.tasks.size();
  if (size_ > 20'000'000) throw Error(fmt::format("grid {}: a product of {} points", grid.name, size_));
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
  if (steps_ > 0) point.labels.push_back(std::to_string(steps_));
  return true;
}

void GridProduct::check_rule(const std::string& key, const Json& value) const {
  const std::string place = "grid " + grid_.name + ": exclude " + key;
  std::vector<std::string> accepted = {"task"};
  for (const Axis& axis : grid_.axes) accepted.push_back(axis.path);
  if (!is_one_of(accepted, key)) throw unknown_word("grid " + grid_.name + ": exclude", key, accepted);
  if (key == "task") return;
  // A rule with a value that the axis does not have would exclude nothing, silently.
  const Axis& axis = *std::find_if(grid_.axes.begin(), grid_.axes.end(), [&](const Axis& a) { return a.path == key; });
  for (size_t i = 0; i < axis.values.size(); ++i) {
    if (matches(value, axis.values[i], axis.labels[i])) return;
  }
  throw unknown_word(place, value.is_string() ? value.get<std::string>() : value.dump(), axis.labels);
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
