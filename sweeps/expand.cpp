// From a grid to distinct configurations: every point of the product is laid over its base recipe, made canonical by
// the trainer (which erases dead fields) and hashed; points with one hash are one configuration. Points are
// independent, so TBB shares them out; the result is put together in the order of the product and does not depend on
// threads.
#include <fmt/format.h>
#include <tbb/blocked_range.h>
#include <tbb/concurrent_hash_map.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <set>

#include "src/error.h"
#include "src/words.h"
#include "sweeps/grid.h"

namespace fp4::sweeps {

namespace {

const std::vector<std::string> gemms = {"fprop", "dgrad", "wgrad"};
const std::vector<std::string> operands = {"a", "b"};

bool is_one_of(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

void set_at(Json& object, const std::vector<std::string>& parts, size_t from, const Json& value) {
  Json* at = &object;
  for (size_t i = from; i < parts.size(); ++i) {
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[parts[i]];
  }
  *at = value;
}

// A path into a recipe, with * and x|y, and with both operands meant where none is named (`fprop.estimator`).
void set_recipe_path(Json& recipe, const std::string& path, const Json& value) {
  const std::vector<std::string> parts = split(path, '.');
  const std::vector<std::string> heads = parts[0] == "*" ? gemms : split(parts[0], '|');
  if (parts.size() < 2 || !is_one_of(gemms, heads.front())) return set_at(recipe, parts, 0, value);
  const bool names_operand = parts[1] == "*" || is_one_of(operands, split(parts[1], '|').front());
  const bool whole_gemm = parts[1] == "hadamard" || parts[1] == "accumulator";
  for (const std::string& gemm : heads) {
    if (whole_gemm) {
      set_at(recipe[gemm], parts, 1, value);
      continue;
    }
    const std::vector<std::string> sides = !names_operand || parts[1] == "*" ? operands : split(parts[1], '|');
    for (const std::string& side : sides) {
      Json& operand = recipe[gemm][side];
      if (parts.back() == "preset") operand = Json::object();
      set_at(operand, parts, names_operand ? 2 : 1, value);
    }
  }
}

// Lays an object over a recipe (depth 0), a GEMM (1) or anything deeper; "*" stands for all GEMMs or both operands.
void lay_over(Json& target, const Json& patch, int depth) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  // A preset settles every field of an operand; fields kept from before would overrule it.
  if (!target.is_object() || patch.contains("preset")) target = Json::object();
  for (const auto& [key, value] : patch.items()) {
    if ((key == "*" || (key == "all" && depth == 0)) && depth < 2) {
      for (const std::string& name : depth == 0 ? gemms : operands) lay_over(target[name], value, depth + 1);
    } else {
      lay_over(target[key], value, depth + 1);
    }
  }
}

// One point: values by axis path (of axes, or of an `include` entry).
using Choice = std::vector<std::pair<const Axis*, const Json*>>;

class Builder {
 public:
  Builder(const Grid& grid, const Simulator& simulator, int steps)
      : grid_(grid), simulator_(simulator), steps_(steps), base_(named_base()) {
    for (const Axis& axis : grid.axes) {
      for (const Json& value : axis.values) remember(axis.kind, value);
    }
    for (const auto& rule : grid.include) {
      for (const auto& [key, value] : rule) {
        if (key == "recipe") remember(AxisKind::recipe, value);
        if (is_one_of(gemms, key)) remember(AxisKind::gemm, value);
      }
    }
    for (const std::string& name : grid.references) remember(AxisKind::recipe, name);
  }

  // The configuration as given to the trainer, and the name of its recipe.
  Json given(const std::string& task, const Choice& choice, std::string& recipe_name) const {
    Json recipe = base_;
    recipe_name = base_name_;
    for (const bool first : {true, false}) {
      for (const auto& [axis, value] : choice) {
        if ((axis->kind == AxisKind::recipe) == first) apply(recipe, *axis, *value, recipe_name);
      }
    }
    return config(task, choice, std::move(recipe));
  }

  Json reference(const Json& canonical, const std::string& name) const {
    return {{"task", canonical["task"]}, {"train", canonical["train"]}, {"recipe", recipes_.at(name)}};
  }

 private:
  Json named_base() {
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
      if (is_one_of(gemms, path)) {
        lay_over(recipe[path], value, 1);
      } else {
        set_recipe_path(recipe, path, value);
      }
    }
    return recipe;
  }

  void remember(AxisKind kind, const Json& value) {
    if (!value.is_string() || (kind != AxisKind::recipe && kind != AxisKind::gemm)) return;
    std::string name = value.get<std::string>();
    if (kind == AxisKind::gemm) {
      const size_t dot = name.rfind('.');
      if (dot == std::string::npos || !is_one_of(gemms, name.substr(dot + 1))) {
        throw Error("grid " + grid_.name + ": a whole GEMM is RECIPE.fprop, RECIPE.dgrad or RECIPE.wgrad, not '" +
                    name + "'");
      }
      name.resize(dot);
    }
    if (!recipes_.contains(name)) recipes_[name] = simulator_.recipe(name);
  }

  void apply(Json& recipe, const Axis& axis, const Json& value, std::string& recipe_name) const {
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

  Json config(const std::string& task, const Choice& choice, Json recipe) const {
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

  const Grid& grid_;
  const Simulator& simulator_;
  int steps_;
  std::string base_name_;
  Json base_;
  std::map<std::string, Json> recipes_;
};

bool matches(const Json& wanted, const Json& value, const std::string& label) {
  if (wanted.is_array() && !(value.is_array() && wanted == value)) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const Json& one) { return matches(one, value, label); });
  }
  return wanted == value || (wanted.is_string() && wanted.get<std::string>() == label);
}

struct Point {
  std::string task;
  Choice choice;
  std::vector<std::string> labels;
};

class Product {
 public:
  explicit Product(const Grid& grid, const Simulator& simulator, int steps) : grid_(grid), steps_(steps) {
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
        throw Error("grid " + grid.name + ": axis " + axis.path + ": none of its tasks has the parameter '" +
                    parameter + "'");
      }
    }
    for (const auto& rule : grid.exclude) {
      for (const auto& [key, value] : rule) check_rule(key, value);
    }
    size_ *= grid.tasks.size();
    if (size_ > 20'000'000) throw Error(fmt::format("grid {}: a product of {} points", grid.name, size_));
  }

  size_t size() const { return size_; }

  // Point `index`, the last axis fastest; nothing when excluded.
  bool point(size_t index, Point& point) const {
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

 private:
  void check_rule(const std::string& key, const Json& value) const {
    const std::string place = "grid " + grid_.name + ": exclude " + key;
    std::vector<std::string> accepted = {"task"};
    for (const Axis& axis : grid_.axes) accepted.push_back(axis.path);
    if (!is_one_of(accepted, key)) throw unknown_word("grid " + grid_.name + ": exclude", key, accepted);
    if (key == "task") return;
    // A rule with a value that the axis does not have would exclude nothing, silently.
    const Axis& axis =
        *std::find_if(grid_.axes.begin(), grid_.axes.end(), [&](const Axis& a) { return a.path == key; });
    for (size_t i = 0; i < axis.values.size(); ++i) {
      if (matches(value, axis.values[i], axis.labels[i])) return;
    }
    throw unknown_word(place, value.is_string() ? value.get<std::string>() : value.dump(), axis.labels);
  }

  bool holds(const std::pair<const std::string, Json>& entry, const Point& point,
             const std::vector<size_t>& digits) const {
    if (entry.first == "task") return matches(entry.second, point.task, point.task);
    for (size_t i = 0; i < grid_.axes.size(); ++i) {
      const Axis& axis = grid_.axes[i];
      if (axis.path == entry.first) return matches(entry.second, axis.values[digits[i]], axis.labels[digits[i]]);
    }
    return false;
  }

  const Grid& grid_;
  int steps_;
  size_t size_ = 1;
};

// What one point became: a hash, or why it is none.
struct Outcome {
  std::string hash;
  std::string impossible;
  bool excluded = false;
};

class Expander {
 public:
  Expander(const Grid& grid, const Simulator& simulator, int steps)
      : grid_(grid),
        simulator_(simulator),
        product_(grid, simulator, steps),
        builder_(grid, simulator, steps),
        steps_(steps) {}

  Plan run() {
    for (const Axis& axis : grid_.axes) plan_.axes.push_back(axis.path);
    if (steps_ > 0) plan_.axes.push_back("train.steps");
    plan_.counts.product = product_.size();
    // In slices, so that a product of millions needs memory for its distinct configurations only.
    const size_t slice = 1 << 16;
    for (size_t begin = 0; begin < product_.size(); begin += slice)
      expand_slice(begin, std::min(begin + slice, product_.size()));
    include();
    for (const auto& entry : known_) plan_.configs.push_back(entry.second);
    const auto order = [](const ConfigRecord& a, const ConfigRecord& b) {
      return std::tie(a.task, a.hash) < std::tie(b.task, b.hash);
    };
    std::sort(plan_.configs.begin(), plan_.configs.end(), order);
    plan_.counts.distinct = plan_.configs.size();
    for (auto& [key, records] : contexts_) {
      for (const ConfigRecord& record : records) {
        plan_.context[records.front().hash].push_back(record.hash);
        plan_.references.emplace(record.hash, record);
      }
    }
    return std::move(plan_);
  }

 private:
  void expand_slice(size_t begin, size_t end) {
    std::vector<Outcome> outcomes(end - begin);
    tbb::parallel_for(tbb::blocked_range<size_t>(begin, end, 16), [&](const tbb::blocked_range<size_t>& range) {
      Point point;
      for (size_t i = range.begin(); i < range.end(); ++i) {
        outcomes[i - begin] =
            product_.point(i, point) ? examine(point) : Outcome{.hash = {}, .impossible = {}, .excluded = true};
      }
    });
    Point point;
    for (size_t i = begin; i < end; ++i) {
      if (outcomes[i - begin].excluded) {
        ++plan_.counts.excluded;
        continue;
      }
      product_.point(i, point);
      count(outcomes[i - begin], point);
    }
  }

  void count(const Outcome& outcome, const Point& point) {
    if (!outcome.impossible.empty()) {
      ++plan_.counts.impossible[outcome.impossible];
      return;
    }
    if (!seen_.insert(outcome.hash).second) ++plan_.counts.duplicates;
    plan_.points.push_back({outcome.hash, point.labels});
  }

  void include() {
    for (const auto& rule : grid_.include) {
      std::vector<Axis> axes;
      axes.reserve(rule.size());
      std::vector<std::string> tasks = grid_.tasks;
      for (const auto& [key, value] : rule) {
        if (key == "task") {
          tasks = value.is_array() ? value.get<std::vector<std::string>>() : std::vector{value.get<std::string>()};
          for (const std::string& task : tasks) {
            if (!is_one_of(grid_.tasks, task))
              throw unknown_word("grid " + grid_.name + ": include task", task, grid_.tasks);
          }
          continue;
        }
        // The words of kinds are settled by the same function that reads axes.
        const std::string text = Json{{"name", "include"}, {"task", tasks}, {"axes", {{key, {value}}}}}.dump();
        axes.push_back(parse_grid(text, "grid " + grid_.name + ": include").axes.front());
      }
      for (const std::string& task : tasks) include_point(task, axes);
    }
  }

  void include_point(const std::string& task, const std::vector<Axis>& axes) {
    Point point{.task = task, .choice = {}, .labels = std::vector<std::string>(plan_.axes.size(), "")};
    for (const Axis& axis : axes) {
      point.choice.emplace_back(&axis, &axis.values.front());
      const auto column = std::find(plan_.axes.begin(), plan_.axes.end(), axis.path);
      if (column != plan_.axes.end())
        point.labels[static_cast<size_t>(column - plan_.axes.begin())] = axis.labels.front();
    }
    if (steps_ > 0) point.labels.back() = std::to_string(steps_);
    ++plan_.counts.included;
    count(examine(point), point);
  }

  Outcome examine(const Point& point) {
    std::string recipe_name;
    Json canonical;
    try {
      canonical = simulator_.canonical(builder_.given(point.task, point.choice, recipe_name));
    } catch (const Error& error) {
      std::string words = point.task;
      for (const auto& [axis, value] : point.choice) words += ", " + axis->path + " = " + value->dump();
      throw Error("grid " + grid_.name + ", point (" + words + "): " + error.what());
    }
    if (std::string reason = simulator_.invalid_reason(canonical); !reason.empty()) {
      return {.hash = {}, .impossible = std::move(reason)};
    }
    Outcome outcome{.hash = simulator_.hash(canonical), .impossible = {}};
    decltype(known_)::accessor entry;
    if (known_.insert(entry, outcome.hash)) {
      // Whichever thread comes first writes; name it by content, since two points of different bases may meet here.
      entry->second = {.hash = outcome.hash,
                       .task = point.task,
                       .reference = references_of(canonical),
                       .recipe = recipe_name,
                       .config = canonical.dump(),
                       .static_cost = simulator_.static_cost(canonical)};
    } else if (recipe_name < entry->second.recipe) {
      entry->second.recipe = recipe_name;
    }
    return outcome;
  }

  // Hash of the fp32 configuration beside this one; notes the other references of the same context.
  std::string references_of(const Json& canonical) {
    const std::string key = canonical["task"].dump() + canonical["train"].dump();
    decltype(contexts_)::accessor entry;
    if (contexts_.insert(entry, key)) {
      std::vector<std::string> names = grid_.references;
      std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == "fp32"; });
      for (const std::string& name : names) {
        const Json reference = simulator_.canonical(builder_.reference(canonical, name));
        entry->second.push_back({.hash = simulator_.hash(reference),
                                 .task = canonical["task"]["name"].get<std::string>(),
                                 .reference = {},
                                 .recipe = name,
                                 .config = reference.dump(),
                                 .static_cost = simulator_.static_cost(reference)});
      }
      for (ConfigRecord& record : entry->second) record.reference = entry->second.front().hash;
    }
    return entry->second.front().hash;
  }

  const Grid& grid_;
  const Simulator& simulator_;
  Product product_;
  Builder builder_;
  int steps_;
  Plan plan_;
  std::set<std::string> seen_;
  tbb::concurrent_hash_map<std::string, ConfigRecord> known_;
  tbb::concurrent_hash_map<std::string, std::vector<ConfigRecord>> contexts_;
};

}  // namespace

Plan expand(const Grid& grid, const Simulator& simulator, int steps) { return Expander(grid, simulator, steps).run(); }

}  // namespace fp4::sweeps
