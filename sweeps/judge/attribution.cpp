// See attribution.h. Points are looked up by the numbers of their labels, so a product of 100,000 points takes a
// second.
#include "sweeps/judge/attribution.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <unordered_map>

#include "src/text/named_rows.h"

namespace fp4::sweeps {

namespace {

// The points of one task as label numbers, with the mixed-radix code of each.
struct Space {
  std::vector<std::vector<std::string>> values;  // by axis, in order of appearance
  struct Entry {
    std::vector<uint32_t> digits;
    const ConfigResult* config;
  };
  std::vector<Entry> entries;
  std::unordered_map<uint64_t, size_t> by_code;

  uint64_t code(const std::vector<uint32_t>& digits) const {
    uint64_t code = 0;
    for (size_t i = 0; i < digits.size(); ++i) code = code * (values[i].size() + 1) + digits[i];
    return code;
  }
};

// A setting that was tuned because it was good: no draw of the space.
bool is_refinement(const Results& results, const ConfigResult& config) {
  return results.grid().tune_best > 0 && config.record.at != At::fixed;
}

// Values in the grid's order: the first one is the reference.
Space space_of(const Results& results, const std::string& task) {
  Space space;
  const std::vector<std::string>& axes = results.axes();
  std::vector<std::unordered_map<std::string, uint32_t>> digit_of(axes.size());
  space.values.resize(axes.size());
  for (const Axis& axis : results.grid().axes) {
    const auto at = static_cast<size_t>(std::find(axes.begin(), axes.end(), axis.path) - axes.begin());
    for (const std::string& label : axis.labels) {
      if (at == axes.size()) continue;
      digit_of[at].try_emplace(label, static_cast<uint32_t>(space.values[at].size()));
      space.values[at].push_back(label);
    }
  }
  for (const PointRecord& point : results.points()) {
    const ConfigResult* config = results.find(point.hash);
    if (config == nullptr || config->record.task != task) continue;
    if (is_refinement(results, *config)) continue;
    Space::Entry entry{.digits = {}, .config = config};
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto [digit, fresh] =
          digit_of[i].try_emplace(point.labels[i], static_cast<uint32_t>(space.values[i].size()));
      if (fresh) space.values[i].push_back(point.labels[i]);
      entry.digits.push_back(digit->second);
    }
    space.entries.push_back(std::move(entry));
  }
  for (size_t i = 0; i < space.entries.size(); ++i) space.by_code[space.code(space.entries[i].digits)] = i;
  return space;
}

// The part of a space that a contrast looks at: by axis and value.
using Mask = std::vector<std::vector<bool>>;

bool inside(const Mask& mask, const std::vector<uint32_t>& digits, size_t but) {
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != but && !mask[i][digits[i]]) return false;
  }
  return true;
}

// Quantised in a step; 0 where no run says it.
double products_of(const ConfigResult& config) {
  for (const RunRecord& run : config.runs)
    if (run.status == Status::finished)
      if (const auto count = measured(run, quantised_products); count && std::isfinite(*count)) return *count;
  return 0;
}

class Attribution {
 public:
  Attribution(const Results& results, Metric metric) : results_(results), metric_(metric) {
    const std::vector<uint64_t>& seeds = results.grid().seeds;
    screening_.insert(seeds.begin(), seeds.end());
  }

  Effect effect(const Space& space, size_t axis, uint32_t value, uint32_t against, const Mask& mask) const {
    Effect effect = {.value = space.values[axis][value], .reference = space.values[axis][against]};
    std::set<std::pair<const ConfigResult*, const ConfigResult*>> pairs;
    for (const Space::Entry& entry : space.entries) {
      if (entry.digits[axis] != value || !inside(mask, entry.digits, axis)) continue;
      std::vector<uint32_t> digits = entry.digits;
      digits[axis] = against;
      const auto other = space.by_code.find(space.code(digits));
      if (other == space.by_code.end()) continue;
      const ConfigResult* reference = space.entries[other->second].config;
      if (reference != entry.config) pairs.emplace(entry.config, reference);  // equal: the axis is dead here
    }
    average(pairs, effect);
    return effect;
  }

  // An importance sample has hardly any complete pairs: compare weighted means of the two values' configurations.
  Effect weighted_effect(const Space& space, size_t axis, uint32_t value, uint32_t against, const Mask& mask) const {
    Effect effect = {.value = space.values[axis][value], .reference = space.values[axis][against], .weighted = true};
    std::set<const ConfigResult*> mine, theirs;
    for (const Space::Entry& entry : space.entries) {
      if (!inside(mask, entry.digits, axis)) continue;
      if (entry.digits[axis] == value) mine.insert(entry.config);
      if (entry.digits[axis] == against) theirs.insert(entry.config);
    }
    effect.settings = mine.size();
    effect.sample = {.reference_settings = theirs.size(),
                     .diverged = take_diverged(mine),
                     .reference_diverged = take_diverged(theirs)};
    const std::vector<double> a = weighted_means(mine), b = weighted_means(theirs);
    if (a.empty() || b.empty()) return effect;
    effect.reference_gap = summarise(b).mean;
    effect.comparison.settings.push_back({.mine = {a}, .theirs = {b}});
    return effect;
  }

 private:
  // Takes out the configurations of which a run diverged: their number.
  static size_t take_diverged(std::set<const ConfigResult*>& configs) {
    return std::erase_if(configs, [](const ConfigResult* config) { return Results::diverged(*config); });
  }

  // By screening seed, of the configurations that have every one: a mean over other settings at one seed than at the
  // next would be no replicate.
  std::vector<double> weighted_means(const std::set<const ConfigResult*>& configs) const {
    std::vector<std::vector<double>> y(screening_.size());
    std::vector<double> p;
    for (const ConfigResult* config : configs) {
      std::vector<double> gaps;
      for (const uint64_t seed : screening_) {
        const RunRecord* run = config->run(seed);
        if (const auto gap = run == nullptr ? std::nullopt : results_.gap(*config, *run, metric_)) gaps.push_back(*gap);
      }
      if (gaps.size() < screening_.size()) continue;
      for (size_t s = 0; s < gaps.size(); ++s) y[s].push_back(gaps[s]);
      p.push_back(config->record.probability);
    }
    std::vector<double> means;
    if (p.empty()) return means;
    for (const std::vector<double>& at_seed : y) means.push_back(hajek(at_seed, p).mean);
    return means;
  }

  // Losses above those of the context's fp32: axes of tasks and trainings compare over contexts.
  RungLosses gaps(const ConfigResult& config, const std::vector<uint64_t>& seeds) const {
    RungLosses losses = Results::losses(config, seeds, metric_);
    const ConfigResult* reference = results_.find(config.record.reference);
    for (size_t s = 0; s < seeds.size(); ++s) {
      const RunRecord* run = reference == nullptr ? nullptr : reference->run(seeds[s]);
      const double theirs = run == nullptr ? unknown : metric_of(*run, metric_).value_or(unknown);
      for (std::vector<double>& rung : losses)
        if (std::isfinite(rung[s])) rung[s] -= theirs;  // a divergence stays one, whatever fp32 did
    }
    return losses;
  }

  // All seeds that every setting has on both sides, raced ones among them; settings that lack some of the screening are
  // left out.
  void average(const std::set<std::pair<const ConfigResult*, const ConfigResult*>>& pairs, Effect& effect) const {
    std::set<uint64_t> common;
    std::vector<std::pair<const ConfigResult*, const ConfigResult*>> whole;
    for (const auto& [config, reference] : pairs) {
      const std::set<uint64_t> mine = Results::seeds_of(*config), theirs = Results::seeds_of(*reference);
      std::set<uint64_t> both;
      std::set_intersection(mine.begin(), mine.end(), theirs.begin(), theirs.end(), std::inserter(both, both.end()));
      if (!std::includes(both.begin(), both.end(), screening_.begin(), screening_.end())) continue;
      if (!whole.empty()) std::erase_if(common, [&](uint64_t seed) { return !both.contains(seed); });
      if (whole.empty()) common = std::move(both);
      whole.emplace_back(config, reference);
    }
    effect.settings = whole.size();
    if (whole.empty()) return;
    const std::vector<uint64_t> seeds(common.begin(), common.end());
    std::vector<double> by_setting, theirs;
    double mean = 0;
    for (const auto& [config, reference] : whole) {
      effect.comparison.settings.push_back({gaps(*config, seeds), gaps(*reference, seeds)});
      const std::pair products(products_of(*config), products_of(*reference));
      if (!effect.products && products.first != products.second && products.first * products.second > 0)
        effect.products = products;
      const Setting& setting = effect.comparison.settings.back();
      const PairedDifference d = difference_at_best(setting.mine, setting.theirs, seeds.size(), 0.05);
      if (d.n == 0) continue;
      effect.rates_differ += results_.rates_differ(config->rung(d.mean_at.mine), reference->rung(d.mean_at.theirs));
      by_setting.push_back(d.mean);
      mean += d.mean;
      for (const double gap : setting.theirs[d.mean_at.theirs])
        if (std::isfinite(gap)) theirs.push_back(gap);
    }
    if (by_setting.empty()) return;
    effect.reference_gap = summarise(theirs).mean;
    effect.low_decile = quantile(by_setting, 0.1);
    effect.high_decile = quantile(by_setting, 0.9);
    const auto same = std::count_if(by_setting.begin(), by_setting.end(),
                                    [&](double value) { return mean == 0 ? value == 0 : value * mean > 0; });
    effect.same_sign = static_cast<double>(same) / static_cast<double>(by_setting.size());
  }

  const Results& results_;
  Metric metric_;
  std::set<uint64_t> screening_;
};

uint32_t value_named(const Space& space, const Results& results, const std::string& place, size_t axis,
                     const std::string& value) {
  return static_cast<uint32_t>(accepted_index(place + " " + results.axes()[axis], value, space.values[axis]));
}

// One mask, with the words of its group, for each combination of the `by` axes.
std::vector<std::pair<std::string, Mask>> groups_of(const Space& space, const Results& results,
                                                    const Contrast& contrast) {
  Mask all;
  for (const auto& values : space.values) all.emplace_back(values.size(), true);
  for (const auto& [name, words] : contrast.where) {
    const size_t axis = accepted_index("--where", name, results.axes());
    std::fill(all[axis].begin(), all[axis].end(), false);
    for (const std::string& word : words) all[axis][value_named(space, results, "--where", axis, word)] = true;
  }
  std::vector<std::pair<std::string, Mask>> groups = {{"", all}};
  for (const std::string& name : contrast.by) {
    const size_t axis = accepted_index("--by", name, results.axes());
    std::vector<std::pair<std::string, Mask>> finer;
    for (const auto& [words, mask] : groups) {
      for (size_t value = 0; value < mask[axis].size(); ++value) {
        if (!mask[axis][value] || space.values[axis][value].empty()) continue;
        Mask narrow = mask;
        std::fill(narrow[axis].begin(), narrow[axis].end(), false);
        narrow[axis][value] = true;
        finer.emplace_back((words.empty() ? "" : words + ", ") + space.values[axis][value], std::move(narrow));
      }
    }
    groups = std::move(finer);
  }
  return groups;
}

double value_or(const std::map<std::string, double>& map, const std::string& key, double otherwise) {
  const auto at = map.find(key);
  return at == map.end() ? otherwise : at->second;
}

// Means of a sample leave out what diverged. Where that is a larger share of one side, its mean decides nothing in its
// favour.
void count_diverged(Effect& effect) {
  const Effect::Sample& sample = effect.sample;
  effect.comparison.diverged = sample.diverged;
  effect.comparison.rival_diverged = sample.reference_diverged;
  const size_t mine = sample.diverged * sample.reference_settings, theirs = sample.reference_diverged * effect.settings;
  const Verdict held = effect.comparison.verdict;
  if ((mine > theirs && held != Verdict::worse) || (theirs > mine && held != Verdict::better))
    effect.comparison.verdict = Verdict::undecided;
}

// SD of bf16 - fp32 over the screening seeds, by task: root mean square over its contexts.
std::map<std::string, double> noise_floors(const Results& results, Metric metric) {
  std::map<std::string, std::vector<double>> variances;
  for (const ConfigResult& config : results.configs()) {
    if (!results.is_plain(config, "bf16")) continue;
    const Summary gap = summarise(results.gaps(config, false, metric));
    if (gap.n >= 2) variances[config.record.task].push_back(gap.sd * gap.sd);
  }
  std::map<std::string, double> floors;
  for (const auto& [task, list] : variances) floors[task] = std::sqrt(summarise(list).mean);
  return floors;
}

}  // namespace

std::vector<Effect> attribute(const Results& results, Metric metric, const std::map<std::string, double>& delta,
                              const Contrast& contrast) {
  const Attribution attribution(results, metric);
  const std::map<std::string, double> floors = noise_floors(results, metric);
  const bool sampled = results.grid().explore == Explore::importance;
  std::vector<Effect> effects;
  for (const std::string& task : results.grid().tasks) {
    const Space space = space_of(results, task);
    const auto groups = groups_of(space, results, contrast);
    for (size_t axis = 0; axis < space.values.size(); ++axis) {
      if (!contrast.axis.empty() && accepted_index("--axis", contrast.axis, results.axes()) != axis) continue;
      const uint32_t against =
          contrast.reference.empty() ? 0 : value_named(space, results, "--against", axis, contrast.reference);
      for (const auto& [words, mask] : groups) {
        for (uint32_t value = 0; value < space.values[axis].size(); ++value) {
          // "": included points that do not name the axis.
          if (value == against || space.values[axis][value].empty() || !mask[axis][value]) continue;
          Effect effect = sampled ? attribution.weighted_effect(space, axis, value, against, mask)
                                  : attribution.effect(space, axis, value, against, mask);
          if (effect.comparison.settings.empty()) continue;
          effect.task = task;
          effect.axis = results.axes()[axis];
          effect.group = words;
          effect.comparison.delta = value_or(delta, task, 0);
          effect.noise_floor = value_or(floors, task, unknown);
          effects.push_back(std::move(effect));
        }
      }
    }
  }
  judge_all(effects);
  for (Effect& effect : effects) {
    effect.family = effects.size();
    if (effect.weighted) count_diverged(effect);
  }
  return effects;
}

std::map<std::string, WeightedMean> space_average(const Results& results, Metric metric) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> values;
  for (const ConfigResult& config : results.configs()) {
    const std::vector<double> gaps = results.gaps(config, false, metric);
    if (!config.in_plan || gaps.empty() || Results::diverged(config) || is_refinement(results, config)) continue;
    values[config.record.task].first.push_back(summarise(gaps).mean);
    values[config.record.task].second.push_back(config.record.probability);
  }
  std::map<std::string, WeightedMean> means;
  for (const auto& [task, lists] : values) means[task] = hajek(lists.first, lists.second);
  return means;
}

}  // namespace fp4::sweeps
