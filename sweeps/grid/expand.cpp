// From a grid to distinct configurations: every point of the product is laid over its base recipe, made canonical by
// the trainer (which erases dead fields) and hashed; points with one hash are one configuration. Points are
// independent, so threads share them out; the result is put together in the order of the product and does not depend on
// threads.
#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "src/text/error.h"
#include "src/threads/parallel.h"
#include "sweeps/grid/grid_configs.h"

namespace fp4::sweeps {

namespace {

// What one point became: a hash, or why it is none.
struct Outcome {
  std::string hash;
  std::string impossible;
  bool excluded = false;
};

class Expander {
 public:
  Expander(const Grid& grid, const Simulator& simulator, Part part)
      : grid_(grid), simulator_(simulator), product_(grid, simulator), builder_(grid, simulator), part_(part) {
    if (part_.count == 1 || product_.size() < 2) return;
    // Neighbours share their slow axes; a stride without a common factor spreads them over the machines.
    stride_ = static_cast<size_t>(0.618 * static_cast<double>(product_.size()));
    while (std::gcd(stride_, product_.size()) != 1) ++stride_;
  }

  Plan run() {
    plan_.recipes = builder_.recipes_of_files();
    for (const Axis& axis : grid_.axes) plan_.axes.push_back(axis.path);
    plan_.counts.product = product_.size();
    // In slices, so that a product of millions needs memory for its distinct configurations only.
    const size_t slice = 1 << 16;
    const size_t points = (product_.size() + part_.count - part_.index) / part_.count;
    for (size_t begin = 0; begin < points; begin += slice) expand_slice(begin, std::min(begin + slice, points));
    include();
    for (const auto& entry : known_) plan_.configs.push_back(entry.second);
    const auto order = [](const ConfigRecord& a, const ConfigRecord& b) {
      return std::tie(a.task, a.hash) < std::tie(b.task, b.hash);
    };
    std::sort(plan_.configs.begin(), plan_.configs.end(), order);
    plan_.counts.distinct = plan_.configs.size();
    for (auto& [key, records] : contexts_)
      for (const ConfigRecord& record : records) {
        plan_.context[records.front().hash].push_back(record.hash);
        plan_.references.emplace(record.hash, record);
      }
    return std::move(plan_);
  }

 private:
  // The product's point at a place of this part.
  size_t number(size_t place) const { return (part_.index - 1 + place * part_.count) * stride_ % product_.size(); }

  void expand_slice(size_t begin, size_t end) {
    std::vector<Outcome> outcomes(end - begin);
    parallel_for(0, static_cast<int64_t>(outcomes.size()), 1, threads_of_machine(), 16, [&](int64_t i) {
      Point point;
      outcomes[static_cast<size_t>(i)] = product_.point(number(begin + static_cast<size_t>(i)), point)
                                             ? examine(point)
                                             : Outcome{.hash = {}, .impossible = {}, .excluded = true};
    });
    Point point;
    for (size_t i = begin; i < end; ++i) {
      if (outcomes[i - begin].excluded) {
        ++plan_.counts.excluded;
        continue;
      }
      product_.point(number(i), point);
      count(outcomes[i - begin], point, number(i) + 1);
    }
  }

  void count(const Outcome& outcome, const Point& point, size_t number) {
    if (!outcome.impossible.empty()) {
      ++plan_.counts.impossible[outcome.impossible];
      return;
    }
    const auto [first, is_new] = first_.try_emplace(outcome.hash, plan_.points.size());
    if (!is_new) {
      ++plan_.counts.duplicates;
      name_equal_values(plan_.points[first->second].labels, point.labels);
    }
    plan_.points.push_back({outcome.hash, point.labels});
    plan_.numbers.push_back(number);
  }

  // Two points of one configuration that differ on one axis only: its two values mean the same there.
  void name_equal_values(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    size_t axis = a.size();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      if (axis != a.size() || a[i].empty() || b[i].empty()) return;
      axis = i;
    }
    if (axis != a.size()) ++plan_.counts.equal_values[plan_.axes[axis] + ": '" + a[axis] + "' and '" + b[axis] + "'"];
  }

  void include() {
    size_t number = product_.size();
    for (const Inclusion& inclusion : grid_.include)
      for (const std::string& task : inclusion.tasks)
        if (++number % part_.count == part_.index - 1) include_point(task, inclusion.axes, number);
  }

  void include_point(const std::string& task, const std::vector<Axis>& axes, size_t number) {
    Point point{.task = task, .choice = {}, .labels = std::vector<std::string>(plan_.axes.size(), "")};
    for (const Axis& axis : axes) {
      point.choice.emplace_back(&axis, &axis.values.front());
      const auto column = std::find(plan_.axes.begin(), plan_.axes.end(), axis.path);
      if (column != plan_.axes.end())
        point.labels[static_cast<size_t>(column - plan_.axes.begin())] = axis.labels.front();
    }
    ++plan_.counts.included;
    count(examine(point), point, number);
  }

  Outcome examine(const Point& point) {
    std::string recipe_name;
    Json canonical;
    try {
      canonical = simulator_.canonical(builder_.given(point.task, point.choice, recipe_name));
    } catch (const Error& error) {
      std::string words = point.task;
      for (const auto& [axis, value] : point.choice) words += ", " + axis->path + " = " + value->dump();
      throw Error(grid_.place + ": point (" + words + "): " + error.what());
    }
    if (std::string reason = simulator_.invalid_reason(canonical); !reason.empty()) {
      return {.hash = {}, .impossible = std::move(reason)};
    }
    Outcome outcome{.hash = simulator_.hash(canonical), .impossible = {}};
    // Whichever thread comes first writes; named by content, since two points of different bases may meet here.
    if (named_already(outcome.hash, recipe_name)) return outcome;
    ConfigRecord record{.hash = outcome.hash,
                        .task = point.task,
                        .reference = references_of(canonical),
                        .recipe = recipe_name,
                        .config = canonical.dump(),
                        .static_cost = simulator_.static_cost(canonical)};
    const std::lock_guard lock(mutex_);
    ConfigRecord& known = known_.try_emplace(outcome.hash, std::move(record)).first->second;
    known.recipe = std::min(known.recipe, recipe_name);
    return outcome;
  }

  bool named_already(const std::string& hash, const std::string& recipe) {
    const std::lock_guard lock(mutex_);
    const auto entry = known_.find(hash);
    if (entry == known_.end()) return false;
    entry->second.recipe = std::min(entry->second.recipe, recipe);
    return true;
  }

  // Hash of the fp32 configuration beside this one; notes the other references of the same context. A sweep has few
  // contexts, so threads wait here for one another only at its start.
  std::string references_of(const Json& canonical) {
    const std::string key = canonical["task"].dump() + canonical["train"].dump();
    const std::lock_guard lock(contexts_mutex_);
    const auto [entry, fresh] = contexts_.try_emplace(key);
    if (fresh) {
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
  GridProduct product_;
  GridConfigs builder_;
  Part part_;
  size_t stride_ = 1;
  Plan plan_;
  std::unordered_map<std::string, size_t> first_;  // point of each configuration
  std::mutex mutex_, contexts_mutex_;
  std::map<std::string, ConfigRecord> known_;
  std::map<std::string, std::vector<ConfigRecord>> contexts_;
};

}  // namespace

Plan expand(const Grid& grid, const Simulator& simulator, Part part) { return Expander(grid, simulator, part).run(); }

bool has_one_stage(const Grid& grid) { return grid.explore == Explore::all && grid.tune.empty() && !grid.race; }

bool is_dealt_by_number(const Grid& grid) {
  size_t points = grid.tasks.size();
  for (const Axis& axis : grid.axes) points *= points > 4096 ? 1 : axis.values.size();
  return points > 4096 && has_one_stage(grid);
}

}  // namespace fp4::sweeps
