#include "sweeps/grid/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "src/text/error.h"
#include "src/text/words.h"
#include "sweeps/grid/recipe_overlay.h"

namespace fp4::sweeps {

double rung_value(const Ladder& ladder, int exponent) {
  if (exponent == 0) return ladder.start;  // as the user wrote it
  char text[32];
  std::snprintf(text, sizeof text, "%.3e",
                ladder.start * std::pow(ladder.factor, static_cast<double>(exponent) / ladder.parts));
  return std::strtod(text, nullptr);
}

// The rungs between the best one and its neighbours.
static void look_beside(const Ladder& ladder, const std::map<int, double>& mean_loss, int outer, Climb& end) {
  const int middle = end.best;
  for (const int e : {middle - ladder.parts / 2, middle + ladder.parts / 2}) {
    const auto loss = mean_loss.find(e);
    if (loss == mean_loss.end()) {
      end.wanted.push_back(e);
    } else if (loss->second < mean_loss.at(end.best)) {
      end.best = e;
    }
  }
  end.at_edge = end.at_edge && (end.best == outer || !std::isfinite(mean_loss.at(end.best)));
}

Climb climb(const Ladder& ladder, const std::map<int, double>& mean_loss) {
  int low = -(ladder.rungs / 2) * ladder.parts;
  int high = low + (ladder.rungs - 1) * ladder.parts;
  for (int extensions = 0;; ++extensions) {
    Climb result;
    for (int e = low; e <= high; e += ladder.parts) {
      if (!mean_loss.contains(e)) result.wanted.push_back(e);
    }
    if (!result.wanted.empty()) return result;
    result.best = low;
    for (int e = low; e <= high; e += ladder.parts) {
      if (mean_loss.at(e) < mean_loss.at(result.best)) result.best = e;
    }
    result.at_edge = result.best == low || result.best == high;
    if (!result.at_edge || extensions == most_extensions) {
      const int outward = result.best == low ? -1 : 1;
      if (ladder.parts > 1) look_beside(ladder, mean_loss, result.best + outward * (ladder.parts / 2), result);
      return result;
    }
    (result.best == low ? low : high) += result.best == low ? -ladder.parts : ladder.parts;
  }
}

static const Json* first_at(const Json& value, const std::vector<std::string>& path, size_t from) {
  if (from == path.size()) return &value;
  if (!value.is_object()) return nullptr;
  for (const auto& [key, child] : value.items()) {
    const std::vector<std::string> words = split(path[from], '|');
    if (path[from] != "*" && !contains(words, key)) continue;
    if (const Json* found = first_at(child, path, from + 1)) return found;
  }
  return nullptr;
}

std::optional<double> tuned_value(const Json& canonical, const std::string& path) {
  const bool trains = path.starts_with("train.");
  const Json* value = first_at(trains ? canonical : canonical.at("recipe"), split(path, '.'), 0);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

bool TunedField::may_race() const { return judged >= 2 && std::pow(ladder.factor, 1.0 / ladder.parts) <= 1.42; }

Tuner::Tuner(std::vector<TunedField> fields, const Simulator& simulator)
    : fields_(std::move(fields)), simulator_(simulator) {}

std::string Tuner::round_name(size_t round) const {
  return "tune " + field_of(round).path + (round % rounds_of_field == 0 ? "" : ", wider or finer");
}

Json Tuner::with_value(const Json& canonical, const TunedField& field, double value) const {
  Json given = canonical;
  if (field.path.starts_with("train.")) {
    set_at(given, split(field.path, '.'), 0, value);
  } else {
    set_recipe_path(given["recipe"], field.path, value);
  }
  return simulator_.canonical(given);
}

std::optional<Json> Tuner::rung_of(const Json& canonical, const TunedField& field, const Ladder& ladder,
                                   int exponent) const {
  try {
    return with_value(canonical, field, rung_value(ladder, exponent));
  } catch (const Error&) {
    if (exponent == 0) throw;  // the user's own
    return std::nullopt;
  }
}

Json Tuner::chooser(const Json& canonical, const TunedField& field) const {
  if (!field.by_trunk) return canonical;
  Json trunk = canonical;
  trunk.erase("eval");
  if (trunk.contains("branch")) {
    trunk["recipe"] = canonical["branch"]["recipe"];
    trunk.erase("branch");
  }
  return simulator_.canonical(trunk);
}

Ladder Tuner::ladder_of(const Json& canonical, const TunedField& field) const {
  const std::optional<double> start = field.start ? field.start : tuned_value(canonical, field.path);
  if (!start || !(*start > 0))
    throw Error("tune: " + field.path + ": start: give a number above 0; the configuration has none of its own");
  Ladder ladder = field.ladder;
  ladder.start = *start;
  return ladder;
}

Tuned Tuner::tune(const Json& canonical, const TunedField& field, const MeanLoss& losses) const {
  const Json choosing = chooser(canonical, field);
  const Ladder ladder = ladder_of(choosing, field);
  std::map<int, double> known;
  const Climb end = climb_to(choosing, field, rounds_of_field, losses, known);
  // Where all diverge the end may be a rung that the field does not take.
  std::optional<Json> best = rung_of(canonical, field, ladder, end.best);
  if (!best) best = with_value(canonical, field, ladder.start);
  Tuned tuned{.config = std::move(*best), .at_edge = end.at_edge};
  std::vector<std::pair<double, int>> others;
  for (const auto& [exponent, loss] : known)
    if (exponent != end.best && std::isfinite(loss)) others.emplace_back(loss, exponent);
  std::sort(others.begin(), others.end());
  for (size_t i = 0; i < others.size() && i + 1 < field.judged; ++i)
    tuned.near.push_back(with_value(canonical, field, rung_value(ladder, others[i].second)));
  return tuned;
}

Climb Tuner::climb_to(const Json& canonical, const TunedField& field, size_t last, const MeanLoss& losses,
                      std::map<int, double>& known) const {
  const Ladder ladder = ladder_of(canonical, field);
  for (size_t round = 0;; ++round) {
    Climb step = climb(ladder, known);
    if (step.wanted.empty() || round == last) return step;
    for (const int exponent : step.wanted) {
      const std::optional<Json> rung = rung_of(canonical, field, ladder, exponent);
      const std::optional<double> loss = rung ? losses(simulator_.hash(*rung), field.seeds) : std::nullopt;
      known[exponent] = loss.value_or(std::numeric_limits<double>::infinity());
    }
  }
}

std::vector<Json> Tuner::rungs(const Json& canonical, size_t round, const MeanLoss& losses) const {
  Json config = canonical;
  for (size_t f = 0; f < round / rounds_of_field; ++f) config = tune(config, fields_[f], losses).config;
  const TunedField& field = field_of(round);
  config = chooser(config, field);
  const Ladder ladder = ladder_of(config, field);
  std::vector<Json> rungs;
  std::map<int, double> known;
  for (const int exponent : climb_to(config, field, round % rounds_of_field, losses, known).wanted) {
    if (std::optional<Json> rung = rung_of(config, field, ladder, exponent)) rungs.push_back(std::move(*rung));
  }
  return rungs;
}

Tuned Tuner::best(const Json& canonical, const MeanLoss& losses) const {
  Tuned result{.config = canonical};
  std::vector<std::vector<double>> values;  // by field, those of the rungs beside the best
  for (const TunedField& field : fields_) {
    Tuned one = tune(result.config, field, losses);
    std::vector<double>& near = values.emplace_back();
    for (const Json& rung : one.near)
      if (const auto value = tuned_value(rung, field.path)) near.push_back(*value);
    result = {.config = std::move(one.config), .at_edge = result.at_edge || one.at_edge};
  }
  for (size_t f = 0; f < fields_.size(); ++f)
    for (const double value : values[f]) result.near.push_back(with_value(result.config, fields_[f], value));
  return result;
}

}  // namespace fp4::sweeps
