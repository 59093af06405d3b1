#include "sweeps/judge/advice.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "src/text/error.h"
#include "sweeps/judge/orders.h"

namespace fp4::sweeps {

namespace {

double per_step(const cost::CostResult& result, Objective objective, const std::string& chip) {
  if (objective == Objective::time) return result.step_time_s;
  const std::optional<double> value = objective == Objective::price ? result.price : result.energy_j;
  if (!value) throw Error("advise: " + chip + " has no " + (objective == Objective::price ? "price" : "power figures"));
  return *value;
}

// The value at a share of the sorted list, by rank: infinite values stay what they are.
double at_rank(std::vector<double> values, double share) {
  const auto rank = static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
  return values[rank];
}
Interval middle(const std::vector<double>& values) { return {at_rank(values, 0.025), at_rank(values, 0.975)}; }

// The tokens that make up a gap: ln L falls by `slope` an e-fold of tokens, and the gap itself changes by `by_d`.
double tokens_for_gap(double gap, double slope, double by_d) {
  if (slope <= by_d) return gap <= 0 ? 1 : INFINITY;
  return std::exp(gap / (slope - by_d));
}

// Draw i, of each recipe by itself.
std::mt19937_64 engine_of(const std::string& recipe, size_t i) {
  std::seed_seq seed(recipe.begin(), recipe.end());
  std::mt19937_64 engine(seed);
  engine.discard(64 * i);
  return engine;
}

// Draw i of what the distance from the ladder adds to a gap, the same factor for all recipes.
double draw_transfer(double sd, size_t i) {
  std::mt19937_64 engine(1000 + i);
  std::normal_distribution<double> normal;
  return std::exp(sd * normal(engine));
}

// How far ln L falls an e-fold of tokens.
double slope_of(const Law& law, const LawStudy& study) {
  constexpr double h = 1e-3;
  const double n = study.n.high, d = study.d.high;
  return (std::log(law.loss(n, d * std::exp(-h))) - std::log(law.loss(n, d * std::exp(h)))) / (2 * h);
}

// The factor on a gap that lies so many e-folds of N and D from where it was measured.
double transfer_sd(double e_folds) {
  constexpr double sds_of_95_percent = 1.959964, seen = 3, over = 7.8;  // a factor of 3 from 3.2M to 8B weights
  return std::log(seen) / sds_of_95_percent * e_folds / over;
}

// Tokens of a row and their draws; none where they are not known.
std::vector<double> by_ladder(const LadderAdvice& ladder, const Advice& advice, const AdviceOptions& o,
                              AdviceRow& row) {
  const LawStudy& study = ladder.study;
  const bool by_plane = ladder.gaps.skill.plane_has_skill() && ladder.gaps.planes.at(row.recipe).missing.empty();
  const double by_d = by_plane ? ladder.gaps.planes.at(row.recipe).by_d : 0;
  const double doubt = transfer_sd(std::log(advice.far_n) + std::log(advice.far_d));
  const PlaneAt here = ladder.gaps.at(row.recipe, advice.n, advice.d);
  std::vector<double> relative, tokens;
  for (size_t i = 0; i < o.draws; ++i) {
    std::mt19937_64 engine = engine_of(row.recipe, i);
    std::student_t_distribution<double> student(here.freedom);
    relative.push_back((here.value + here.error * student(engine)) * draw_transfer(doubt, i));
    const Law& law = study.samples[i % study.samples.size()].law;
    tokens.push_back(tokens_for_gap(relative.back(), slope_of(law, study), by_d));
  }
  row.from = TokensFrom::ladder;
  row.gap = here.value, row.gap_interval = middle(relative);
  row.tokens = tokens_for_gap(here.value, slope_of(study.fit.law, study), by_d);
  if (!std::isfinite(*row.tokens)) row.tokens.reset();
  return tokens;
}

// Beside a ladder's gaps published tokens, of sizes of billions, would be of another kind: fp8 alone stays.
std::vector<double> by_publication(const Advice& advice, const AdviceOptions& o, AdviceRow& row) {
  for (const PublishedOrder& order : published_orders()) {
    const auto found = order.tokens.find(row.recipe);
    if (found == order.tokens.end()) continue;
    const Interval& range = found->second;
    if (advice.by_ladder && range.high != 1) continue;
    row.from = range.high == 1 ? TokensFrom::supposed : TokensFrom::published;
    row.source = order.source, row.tokens = (range.low + range.high) / 2;
    std::vector<double> tokens;
    for (size_t i = 0; i < o.draws; ++i) {
      std::mt19937_64 engine = engine_of(row.recipe, i);
      tokens.push_back(std::uniform_real_distribution<double>(range.low, range.high)(engine));
    }
    return tokens;
  }
  return {};
}

std::vector<double> tokens_of(const LadderAdvice* ladder, const Advice& advice, const AdviceOptions& o,
                              AdviceRow& row) {
  if (row.recipe == o.baseline) {
    row.from = TokensFrom::baseline, row.tokens = 1;
    return std::vector<double>(o.draws, 1);
  }
  if (!advice.reads_text) return {};
  if (advice.by_ladder && ladder->gaps.cells.contains(row.recipe) && !ladder->gaps.cells.at(row.recipe).empty())
    return by_ladder(*ladder, advice, o, row);
  return by_publication(advice, o, row);
}

// Rows by cost, each against the first, draw by draw.
void judge_rows(Advice& advice, const std::map<std::string, std::vector<double>>& draws) {
  std::stable_sort(advice.rows.begin(), advice.rows.end(), [](const AdviceRow& a, const AdviceRow& b) {
    if (a.cost.has_value() != b.cost.has_value()) return a.cost.has_value();
    return a.cost ? *a.cost < *b.cost : a.step < b.step;
  });
  const std::vector<double>& best = draws.at(advice.rows.front().recipe);
  for (AdviceRow& row : advice.rows) {
    if (!row.cost) continue;
    std::vector<double> ratios;
    for (size_t i = 0; i < best.size(); ++i) {
      const double mine = draws.at(row.recipe)[i];
      ratios.push_back(std::isfinite(mine) ? mine / best[i] : INFINITY);
    }
    row.against_best = middle(ratios);
    row.word = &row == &advice.rows.front()   ? AdviceWord::best
               : !std::isfinite(*row.cost)    ? AdviceWord::never
               : row.against_best->low <= 1.0 ? AdviceWord::alike
                                              : AdviceWord::dearer;
  }
}

// How many times a value lies outside a range; 1 inside.
double times_outside(double value, const Interval& range) {
  return std::max({1.0, value / range.high, range.low / value});
}

}  // namespace

Advice advise(const LadderAdvice* ladder, const std::map<std::string, cost::RecipeFacts>& recipes,
              const cost::Model& model, const cost::Hardware& hardware, const AdviceOptions& o) {
  Advice advice{.n = static_cast<double>(model.linear_parameters()), .d = o.d, .reads_text = model.reads_text()};
  if (ladder != nullptr) {
    advice.far_n = times_outside(advice.n, ladder->study.n), advice.far_d = times_outside(o.d, ladder->study.d);
    advice.by_ladder = advice.reads_text && std::max(advice.far_n, advice.far_d) <= farthest_advice;
  }
  cost::CostOptions plain = o.cost;
  plain.formulas = false;
  const auto step_of = [&](const cost::RecipeFacts& facts, const cost::CostOptions& options, double fp4 = 1) {
    const cost::CostResult result = evaluate(facts, model, hardware, options);
    return per_step(result, o.objective, hardware.name) *
           (cost::runs_fp4(facts, hardware) ? result.communication.step_s(fp4) / result.step_time_s : 1);
  };
  const cost::RecipeFacts& baseline = recipes.at(o.baseline);
  advice.baseline_step = step_of(baseline, plain);
  std::vector<cost::CostDraw> doubts;
  std::vector<double> baseline_steps;
  for (size_t i = 0; i < o.draws; ++i) {
    doubts.push_back(cost::draw_cost(plain, o.doubt, hardware, i));
    baseline_steps.push_back(step_of(baseline, doubts.back().options));
  }
  std::map<std::string, std::vector<double>> draws;
  for (const auto& [name, facts] : recipes) {
    AdviceRow row{.recipe = name, .decoded = decoded_formats(facts, model, hardware)};
    std::vector<double> steps;
    for (size_t i = 0; i < o.draws; ++i)
      steps.push_back(step_of(facts, doubts[i].options, doubts[i].fp4) / baseline_steps[i]);
    row.step = at_rank(steps, 0.5), row.step_interval = middle(steps);
    if (std::vector<double> tokens = tokens_of(ladder, advice, o, row); !tokens.empty()) {
      row.tokens_interval = middle(tokens);
      for (size_t i = 0; i < o.draws; ++i) tokens[i] *= steps[i];
      row.cost = at_rank(tokens, 0.5), row.interval = middle(tokens);
      draws[name] = std::move(tokens);
    }
    advice.rows.push_back(std::move(row));
  }
  judge_rows(advice, draws);
  return advice;
}

}  // namespace fp4::sweeps
