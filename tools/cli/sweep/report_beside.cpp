#include <algorithm>
#include <map>
#include <unordered_map>

#include "tools/cli/sweep/sweep_report.h"

namespace fp4::tools {

namespace {

using sweeps::ConfigResult;

sweeps::Metric metric_of_column(const std::string& y) {
  return y == "loss_hp_gap" || y == "loss_hp" ? sweeps::Metric::loss_hp : sweeps::Metric::loss;
}

// A run's value of column y: its loss where y is a loss, else its gap to fp32.
std::optional<double> value_of(const sweeps::Results& results, const ConfigResult& config, const sweeps::RunRecord& run,
                               const std::string& y) {
  const sweeps::Metric metric = metric_of_column(y);
  return y.ends_with("_gap") ? results.gap(config, run, metric) : sweeps::metric_of(run, metric);
}

// Task, recipe and the words on the axes that have one.
std::string words_of(const sweeps::Results& results, const ConfigResult& config) {
  std::map<std::string, std::string> words;
  for (std::size_t i = 0; i < config.labels.size(); ++i)
    if (!config.labels[i].empty()) words[results.axes()[i]] = config.labels[i];
  std::string text = config.record.task + '\n' + config.record.recipe;
  for (const auto& [axis, word] : words) text += '\n' + axis + '=' + word;
  return text;
}

// Configurations by their words; null where two share them.
std::map<std::string, const ConfigResult*> by_words(const sweeps::Results& results) {
  std::map<std::string, const ConfigResult*> found;
  for (const ConfigResult& config : results.configs()) {
    const auto [entry, fresh] = found.try_emplace(words_of(results, config), &config);
    if (!fresh) entry->second = nullptr;
  }
  return found;
}

ReportMatch match_of(const SweepView& here, const ConfigResult& mine, const SweepView& there, const ConfigResult& other,
                     const std::string& y) {
  ReportMatch match;
  std::vector<double> differences;
  std::size_t shared = 0, same = 0;
  for (const sweeps::RunRecord& run : other.runs) {
    const auto value = value_of(there.results, other, run, y);
    const sweeps::RunRecord* own = mine.run(run.seed);
    if (own == nullptr) continue;
    ++shared;
    same += !run.digest.empty() && own->digest == run.digest;
    const auto before = value_of(here.results, mine, *own, y);
    if (value && before) differences.push_back(*value - *before);
  }
  match.difference = estimate(sweeps::summarise(differences));
  match.same_bits = shared > 0 && same == shared;
  return match;
}

}  // namespace

ReportChip chip_beside(const ReportInput& input, const SweepView& view, const sweeps::FrontOptions& options) {
  ReportInput other = report_input(view, sweeps::fronts(view.results, view.costs, options), options);
  ReportChip chip{.name = other.chip,
                  .workload = other.workload,
                  .answers = std::move(other.answers),
                  .notes = std::move(other.notes),
                  .points = {}};
  std::unordered_map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < other.points.size(); ++i) place[other.points[i].config_hash] = i;
  for (const ReportPoint& point : input.points) {
    const auto found = place.find(point.config_hash);
    if (found != place.end()) {
      chip.points.push_back(std::move(other.points[found->second]));
      continue;
    }
    ReportPoint unpriced = point;
    unpriced.front.clear();
    unpriced.costs.assign(point.costs.size(), report_unknown);
    unpriced.cost_terms.clear();
    unpriced.sensitivity.clear();
    chip.points.push_back(std::move(unpriced));
  }
  return chip;
}

ReportAgainst sweep_beside(const SweepView& view, const ReportInput& input, const SweepView& other,
                           const sweeps::FrontOptions& options) {
  const ReportInput there = report_input(other, sweeps::fronts(other.results, other.costs, options), options);
  std::unordered_map<std::string, const ReportPoint*> point_there;
  for (const ReportPoint& point : there.points) point_there[point.config_hash] = &point;
  std::size_t y = 0;
  while (there.quality_columns[y].name != options.y) ++y;  // fronts() has refused an unknown word
  const auto here_words = by_words(view.results);
  const auto there_words = by_words(other.results);
  ReportAgainst against{.name = other.name, .matches = {}, .only_there = 0};
  for (std::size_t i = 0; i < input.points.size(); ++i) {
    const ConfigResult* mine = view.results.find(input.points[i].config_hash);
    if (mine == nullptr) continue;
    const ConfigResult* same = other.results.find(mine->record.hash);
    const std::string words = words_of(view.results, *mine);
    const auto found = there_words.find(words);
    if (same == nullptr && found != there_words.end() && here_words.at(words) != nullptr) same = found->second;
    if (same == nullptr) continue;
    ReportMatch match = match_of(view, *mine, other, *same, options.y);
    match.point = i;
    if (const auto judged = point_there.find(same->record.hash); judged != point_there.end()) {
      match.front = judged->second->front;
      match.there = judged->second->qualities[y];
    }
    against.matches.push_back(std::move(match));
  }
  const std::size_t all = other.results.configs().size();
  against.only_there = all - std::min(all, against.matches.size());
  return against;
}

}  // namespace fp4::tools
