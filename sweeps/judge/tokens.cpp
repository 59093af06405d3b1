#include "sweeps/judge/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fp4::sweeps {

namespace {

double between(double from, double to, double share) {
  return from > 0 ? from * std::pow(to / from, share) : from + share * (to - from);
}

double loss_at(const LossCurve& curve, const std::vector<double>& loss, double tokens) {
  for (size_t i = 1; i < loss.size(); ++i) {
    if (curve.tokens[i] < tokens) continue;
    const double share = (tokens - curve.tokens[i - 1]) / (curve.tokens[i] - curve.tokens[i - 1]);
    return loss[i - 1] + share * (loss[i] - loss[i - 1]);
  }
  return loss.back();
}

void keep_common_seeds(LossCurve& a, LossCurve& b) {
  std::erase_if(a.loss, [&](const auto& entry) { return !b.loss.contains(entry.first); });
  std::erase_if(b.loss, [&](const auto& entry) { return !a.loss.contains(entry.first); });
}

struct Ratio {
  double log = 0;
  Bound bound = Bound::exact;
};

// ln of the recipe's tokens over the baseline's.
std::optional<Ratio> ratio(const LossCurve& recipe, const LossCurve& baseline, std::optional<double> target,
                           std::optional<uint64_t> without) {
  using Reach = Crossing::Reach;
  const std::vector<double> mine = recipe.mean(without), theirs = baseline.mean(without);
  const double loss = target.value_or(std::max(mine.back(), theirs.back()));
  const Crossing own = crossing(recipe.tokens, mine, loss), other = crossing(baseline.tokens, theirs, loss);
  if (own.reach == other.reach && own.reach != Reach::at) return std::nullopt;
  const double log = std::log(own.tokens / other.tokens);
  if (own.reach == other.reach) return Ratio{log};
  const bool above = own.reach == Reach::never || other.reach == Reach::before;
  return Ratio{log, above ? Bound::above : Bound::below};
}

std::optional<Interval> jackknife(const LossCurve& recipe, const LossCurve& baseline, std::optional<double> target,
                                  double log) {
  std::vector<double> without;
  for (const auto& [seed, losses] : recipe.loss) {
    const std::optional<Ratio> one = ratio(recipe, baseline, target, seed);
    if (!one || one->bound != Bound::exact) return std::nullopt;
    without.push_back(one->log);
  }
  if (without.size() < 3) return std::nullopt;
  const auto n = static_cast<double>(without.size());
  const double half = t_quantile(0.975, n - 1) * (n - 1) / std::sqrt(n) * summarise(without).sd;
  return Interval{std::expm1(log - half), std::expm1(log + half)};
}

}  // namespace

std::vector<double> LossCurve::mean(std::optional<uint64_t> without) const {
  std::vector<double> sum(tokens.size(), 0);
  size_t count = 0;
  for (const auto& [seed, losses] : loss) {
    if (seed == without) continue;
    ++count;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += losses[i];
  }
  for (double& value : sum) value /= static_cast<double>(count);
  return sum;
}

Crossing crossing(const std::vector<double>& tokens, const std::vector<double>& loss, double target) {
  for (size_t i = 0; i < loss.size(); ++i) {
    if (loss[i] > target) continue;
    if (i == 0) return {loss[0] < target ? Crossing::Reach::before : Crossing::Reach::at, tokens[0]};
    const double share = (loss[i - 1] - target) / (loss[i - 1] - loss[i]);
    return {Crossing::Reach::at, between(tokens[i - 1], tokens[i], share)};
  }
  return {Crossing::Reach::never, tokens.back()};
}

std::string text(const ExtraTokens& extra) {
  const char* sign = extra.bound == Bound::exact ? "" : extra.bound == Bound::above ? ">" : "<";
  return fmt::format("{}{:+.1f} %", sign, 100 * extra.share);
}

std::optional<ExtraTokens> extra_tokens(const LossCurve& recipe, const LossCurve& baseline,
                                        std::optional<double> target) {
  LossCurve mine = recipe, theirs = baseline;
  keep_common_seeds(mine, theirs);
  if (mine.loss.empty() || mine.tokens.empty() || theirs.tokens.empty()) return std::nullopt;
  const std::optional<Ratio> all = ratio(mine, theirs, target, {});
  if (!all) return std::nullopt;
  ExtraTokens extra{.share = std::expm1(all->log), .bound = all->bound, .raw = {}};
  if (extra.bound == Bound::exact) extra.raw = jackknife(mine, theirs, target, all->log);
  return extra;
}

TokenCurves::TokenCurves(const Results& results) : results_(results) {
  for (const ConfigResult& config : results.configs()) {
    const ConfigResult* fp32 = results.find(config.record.reference);
    if (fp32 == nullptr) continue;
    const auto [shared, fresh] = ladder_of_.try_emplace(config.record.reference);
    if (fresh) {
      Json json = Json::parse(fp32->record.config);
      json.erase("recipe");
      for (const TunedField& field : results.grid().tune) {
        if (field.path.starts_with("train.")) json.at("train").erase(field.path.substr(6));
      }
      json.at("train").erase("steps");
      shared->second = json.dump() + std::string(word(fp32->record.at == At::edge ? At::best : fp32->record.at));
    }
    if (results.is_plain(config, config.record.recipe))
      plain_.try_emplace({config.record.reference, config.record.recipe}, &config);
    const Json json = Json::parse(config.record.config);
    rungs_[member(config)].emplace(json.at("train").value("steps", 0.0) * tokens_per_step(json), &config);
  }
}

// The ladder and the recipe's place in the grid, but for the number of steps.
std::string TokenCurves::member(const ConfigResult& config) const {
  std::string key = ladder_of_.at(config.record.reference) + "\n" + config.record.recipe;
  if (config.record.hash == config.record.reference) return key;
  for (size_t i = 0; i < config.labels.size(); ++i) {
    if (results_.axes()[i] != "train.steps") key += "\n" + config.labels[i];
  }
  return key;
}

const ConfigResult* TokenCurves::baseline_of(const ConfigResult& config, const std::string& baseline) const {
  if (baseline == "fp32") return results_.find(config.record.reference);
  const auto at = plain_.find({config.record.reference, baseline});
  return at == plain_.end() ? nullptr : at->second;
}

LossCurve TokenCurves::ladder(const Rungs& rungs, double last, bool confirm) const {
  LossCurve curve;
  for (const auto& [tokens, config] : rungs) {
    if (tokens > last || Results::diverged(*config)) continue;
    curve.tokens.push_back(tokens);
    for (const RunRecord& run : config->runs) {
      const std::optional<double> loss = metric_of(run, Metric::loss);
      if (loss && results_.is_confirm(run.seed) == confirm) curve.loss[run.seed].push_back(*loss);
    }
  }
  std::erase_if(curve.loss, [&](const auto& entry) { return entry.second.size() != curve.tokens.size(); });
  return curve;
}

std::optional<ExtraTokens> TokenCurves::over(const ConfigResult& config, const std::string& baseline, bool confirm,
                                             std::optional<double> target) const {
  const ConfigResult* other = baseline_of(config, baseline);
  if (other == nullptr || Results::diverged(config) || !ladder_of_.contains(config.record.reference))
    return std::nullopt;
  const Rungs& mine = rungs_.at(member(config));
  const Rungs& theirs = rungs_.at(member(*other));
  if (mine.size() > 1 && theirs.size() > 1) {
    const auto own = std::find_if(mine.begin(), mine.end(), [&](const auto& rung) { return rung.second == &config; });
    if (own == mine.end()) return std::nullopt;
    return extra_tokens(ladder(mine, own->first, confirm), ladder(theirs, own->first, confirm));
  }
  if (!has_constant_rate(config.record.config)) return std::nullopt;
  const LossCurve reference = validation_curve(results_, *baseline_of(config, "fp32"), confirm);
  if (!target) target = default_target(reference);
  if (!target) return std::nullopt;
  return extra_tokens(validation_curve(results_, config, confirm), validation_curve(results_, *other, confirm), target);
}

LossCurve validation_curve(const Results& results, const ConfigResult& config, bool confirm) {
  LossCurve curve;
  const double scale = tokens_per_step(Json::parse(config.record.config));
  for (const RunRecord& run : config.runs) {
    if (run.status != Status::finished || results.is_confirm(run.seed) != confirm) continue;
    std::vector<double> tokens, raw;
    for (size_t i = 0; i < run.curve.step.size(); ++i) {
      if (std::isnan(run.curve.validation_loss[i])) continue;
      tokens.push_back(run.curve.step[i] * scale);
      raw.push_back(run.curve.validation_loss[i]);
    }
    if (curve.tokens.empty()) curve.tokens = tokens;
    if (tokens != curve.tokens || raw.empty()) continue;
    std::vector<double>& smooth = curve.loss[run.seed] = raw;
    for (size_t i = 1; i + 1 < raw.size(); ++i) smooth[i] = (raw[i - 1] + raw[i] + raw[i + 1]) / 3;
  }
  return curve;
}

bool has_constant_rate(const std::string& config) {
  const Json train = Json::parse(config).at("train");
  return train.value("schedule", "") == "constant";
}

double tokens_per_step(const Json& config) {
  return config.at("train").value("batch", 1.0) * config.at("task").value("context", 1.0);
}

std::optional<double> default_target(const LossCurve& reference) {
  if (reference.loss.empty() || reference.tokens.size() < 3) return std::nullopt;
  return loss_at(reference, reference.mean(), 0.75 * reference.tokens.back());
}

LossScale loss_scale(const Results& results, const ConfigResult& config) {
  const ConfigResult* fp32 = results.find(config.record.reference);
  std::vector<double> losses;
  LossScale scale;
  if (fp32 == nullptr) return scale;
  for (const RunRecord& run : fp32->runs) {
    const std::optional<double> loss = metric_of(run, Metric::loss);
    if (!loss) continue;
    const std::optional<double> irreducible = measured(run, "irreducible_loss");
    scale.above_irreducible = irreducible.has_value();
    losses.push_back(*loss - irreducible.value_or(0));
  }
  if (!losses.empty()) scale.loss = summarise(losses).mean;
  return scale;
}

}  // namespace fp4::sweeps
