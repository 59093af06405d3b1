// Puts the rows of a store together. The store's `configs` hold the plan and its references; a configuration without a
// point in the product is a reference only.
#include "sweeps/judge/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/text/error.h"
#include "src/text/words.h"
#include "sweeps/grid/recipe_overlay.h"
#include "tasks/run.h"

namespace fp4::sweeps {

std::optional<double> metric_of(const RunRecord& run, Metric metric) {
  if (run.status != Status::finished) return std::nullopt;
  return metric == Metric::loss ? run.loss : run.loss_hp;
}

const RunRecord* ConfigResult::run(uint64_t seed) const {
  const auto at = std::lower_bound(runs.begin(), runs.end(), seed,
                                   [](const RunRecord& record, uint64_t wanted) { return record.seed < wanted; });
  return at != runs.end() && at->seed == seed ? &*at : nullptr;
}

Grid stored_grid(const Store& store) {
  const std::string file = store.file().string(), text = store.meta("grid");
  if (text.empty()) throw Error(file + ": the store holds no grid yet; run `fp4sim sweep run` first", Error::failed);
  return grid_of_texts(text, store.meta("recipes"), file);
}

Grid grid_of_texts(const std::string& text, const std::string& recipes, const std::string& place) {
  Grid grid = parse_grid(text, place);
  if (recipes.empty()) return grid;
  const std::string recipe_place = place + ": recipes";
  const Json by_word = parse_json(recipes, recipe_place);
  const JsonReader words(by_word, recipe_place);
  for (const auto& [word, recipe] : words.object().items()) grid.recipes[word] = recipe;
  return grid;
}

Results::Results(const Store& store, bool with_curves) {
  if (const std::vector<Conflict> conflicts = store.conflicts(); !conflicts.empty()) {
    throw Error(fmt::format("{}: non-determinism found: configuration {}, seed {}, has the digests {} ({} such runs; "
                            "`fp4sim sweep status` lists them)",
                            store.file().string(), conflicts[0].hash, conflicts[0].seed, conflicts[0].digests,
                            conflicts.size()),
                Error::failed);
  }
  grid_ = stored_grid(store);
  axes_ = store.axes();
  points_ = store.points();
  build(store.configs(), store.runs(with_curves));
}

Results::Results(const Grid& grid, std::vector<std::string> axes, std::vector<ConfigRecord> configs,
                 std::vector<PointRecord> points, std::vector<ConfigRecord> references, std::vector<RunRecord> runs)
    : grid_(grid), axes_(std::move(axes)), points_(std::move(points)) {
  configs.insert(configs.end(), references.begin(), references.end());
  build(std::move(configs), std::move(runs));
}

void Results::build(std::vector<ConfigRecord> configs, std::vector<RunRecord> runs) {
  const auto order = [](const ConfigRecord& a, const ConfigRecord& b) {
    return std::tie(a.task, a.hash) < std::tie(b.task, b.hash);
  };
  std::stable_sort(configs.begin(), configs.end(), order);
  for (ConfigRecord& record : configs) {
    if (index_.contains(record.hash)) continue;
    index_[record.hash] = configs_.size();
    configs_.push_back({.record = std::move(record), .labels = {}, .runs = {}, .in_plan = false});
  }
  for (const PointRecord& point : points_) {
    const auto at = index_.find(point.hash);
    if (at == index_.end()) continue;  // a point that an exploration did not take
    ConfigResult& config = configs_[at->second];
    config.in_plan = true;
    if (config.labels.empty()) {
      config.labels = point.labels;
      continue;
    }
    // Points that share a configuration differ only in dead fields: there the axis says nothing.
    for (size_t i = 0; i < config.labels.size(); ++i) {
      if (config.labels[i] != point.labels[i]) config.labels[i].clear();
    }
  }
  for (ConfigResult& config : configs_) config.labels.resize(axes_.size());
  for (RunRecord& run : runs) {
    const auto at = index_.find(run.hash);
    if (at != index_.end() && run.role != Role::tune) configs_[at->second].runs.push_back(std::move(run));
  }
  for (ConfigResult& config : configs_) {
    std::stable_sort(config.runs.begin(), config.runs.end(),
                     [](const RunRecord& a, const RunRecord& b) { return a.seed < b.seed; });
  }
  gather_rungs();
}

namespace {

// What the rungs of a configuration share: all but the fields that are tuned.
std::string family_of(const ConfigRecord& record, const std::vector<TunedField>& tune) {
  Json config = Json::parse(record.config);
  for (const TunedField& field : tune) {
    if (field.path.starts_with("train."))
      set_at(config, split(field.path, '.'), 0, nullptr);
    else
      set_recipe_path(config["recipe"], field.path, nullptr);
  }
  return config.dump();
}

void add_rung(ConfigResult& config, ConfigResult rung) {
  rung.labels = config.labels;
  rung.in_plan = config.in_plan;
  config.near.push_back(std::move(rung));
}

}  // namespace

void Results::gather_rungs() {
  const auto is_near = [](const ConfigResult& config) { return config.record.at == At::near; };
  if (std::none_of(configs_.begin(), configs_.end(), is_near)) return;
  std::map<std::string, std::vector<size_t>> families;
  for (size_t i = 0; i < configs_.size(); ++i) families[family_of(configs_[i].record, grid_.tune)].push_back(i);
  for (const auto& [family, members] : families)
    for (const size_t i : members) {
      if (configs_[i].record.at != At::best && configs_[i].record.at != At::edge) continue;
      for (const size_t other : members)
        if (other != i && (is_near(configs_[other]) || configs_[other].record.at == At::fixed))
          add_rung(configs_[i], configs_[other]);
    }
  std::erase_if(configs_, is_near);
  index_.clear();
  for (size_t i = 0; i < configs_.size(); ++i) index_[configs_[i].record.hash] = i;
}

RungLosses Results::losses(const ConfigResult& config, const std::vector<uint64_t>& seeds, Metric metric) {
  const auto of = [&](const ConfigResult& rung) {
    std::vector<double> losses;
    losses.reserve(seeds.size());
    for (const uint64_t seed : seeds) {
      const RunRecord* run = rung.run(seed);
      if (run == nullptr || run->status == Status::failed) {
        losses.push_back(unknown);
        continue;
      }
      const std::optional<double> loss = metric_of(*run, metric);
      losses.push_back(loss && std::isfinite(*loss) ? *loss : std::numeric_limits<double>::infinity());
    }
    return losses;
  };
  RungLosses rungs = {of(config)};
  for (const ConfigResult& near : config.near) rungs.push_back(of(near));
  return rungs;
}

std::set<uint64_t> Results::seeds_of(const ConfigResult& config) {
  std::set<uint64_t> seeds;
  for (const RunRecord& run : config.runs) seeds.insert(run.seed);
  for (const ConfigResult& near : config.near)
    for (const RunRecord& run : near.runs) seeds.insert(run.seed);
  return seeds;
}

bool Results::rates_differ(const ConfigResult& a, const ConfigResult& b) const {
  if (grid_.tune.empty()) return false;
  const Json mine = Json::parse(a.record.config), theirs = Json::parse(b.record.config);
  return std::any_of(grid_.tune.begin(), grid_.tune.end(), [&](const TunedField& field) {
    const auto x = tuned_value(mine, field.path), y = tuned_value(theirs, field.path);
    return x && y && *x != *y;
  });
}

const ConfigResult* Results::find(const std::string& hash) const {
  const auto at = index_.find(hash);
  return at == index_.end() ? nullptr : &configs_[at->second];
}

std::optional<double> Results::gap(const ConfigResult& config, const RunRecord& run, Metric metric) const {
  const std::optional<double> own = metric_of(run, metric);
  const ConfigResult* reference = find(config.record.reference);
  if (!own || reference == nullptr) return std::nullopt;
  const RunRecord* pair = reference->run(run.seed);
  // Unquantised training has one loss: what was learned is what is deployed.
  const std::optional<double> theirs = pair == nullptr ? std::nullopt : metric_of(*pair, metric);
  if (!theirs) return std::nullopt;
  return *own - *theirs;
}

std::vector<double> Results::gaps(const ConfigResult& config, bool confirm, Metric metric) const {
  std::vector<double> values;
  for (const RunRecord& run : config.runs) {
    if (is_confirm(run.seed) != confirm) continue;
    if (const std::optional<double> value = gap(config, run, metric)) values.push_back(*value);
  }
  return values;
}

std::vector<double> Results::all_gaps(const ConfigResult& config, Metric metric) const {
  std::vector<double> values = gaps(config, false, metric);
  const std::vector<double> fresh = gaps(config, true, metric);
  values.insert(values.end(), fresh.begin(), fresh.end());
  return values;
}

bool Results::is_plain(const ConfigResult& config, std::string_view recipe) const {
  bool varies = false;  // some axis changes the recipe that its name stands for
  for (size_t i = 0; i < config.labels.size(); ++i) {
    const bool about_recipe = !axes_[i].starts_with("task.") && !axes_[i].starts_with("train.");
    varies |= about_recipe && axes_[i] != "recipe" && !config.labels[i].empty();
  }
  if (config.record.recipe == recipe && !varies) return true;
  // What a file said is known by its name alone: it may be gone, or say something else by now.
  if (names_file(recipe)) return false;
  // A grid may say the same in labels: the base mxfp4, no Hadamard, rounding to nearest.
  thread_local std::map<std::string, Json, std::less<>> known;
  const auto found = known.find(recipe);
  const Json& plain = found != known.end()
                          ? found->second
                          : known[std::string(recipe)] = tasks::nameless(tasks::canonical_recipe(std::string(recipe)));
  return tasks::nameless(Json::parse(config.record.config).value("recipe", Json())) == plain;
}

bool Results::diverged(const ConfigResult& config) {
  return std::any_of(config.runs.begin(), config.runs.end(),
                     [](const RunRecord& run) { return run.status == Status::diverged; });
}

}  // namespace fp4::sweeps
