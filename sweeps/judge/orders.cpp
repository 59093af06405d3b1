#include "sweeps/judge/orders.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

#include "src/text/json_reader.h"

namespace fp4::sweeps {

namespace {

using Run = std::tuple<double, double, uint64_t>;  // N, D, seed

// Gaps of each recipe on the runs that all of them and the baseline have.
std::vector<std::vector<double>> gaps_in_common(const std::vector<std::string>& recipes,
                                                const std::map<std::string, std::vector<LawPoint>>& points,
                                                const std::string& baseline) {
  std::map<Run, std::map<std::string, double>> losses;
  for (const std::string& name : recipes)
    for (const LawPoint& p : points.at(name)) losses[{p.n, p.d, p.seed}][name] = p.loss;
  for (const LawPoint& p : points.at(baseline)) losses[{p.n, p.d, p.seed}][baseline] = p.loss;
  std::vector<std::vector<double>> gaps(recipes.size());
  for (const auto& [run, by_name] : losses) {
    if (by_name.size() != recipes.size() + 1) continue;
    for (size_t i = 0; i < recipes.size(); ++i)
      gaps[i].push_back(std::log(by_name.at(recipes[i]) / by_name.at(baseline)));
  }
  return gaps;
}

double tau_of(const std::vector<std::vector<double>>& gaps, const std::vector<double>& published,
              const std::vector<size_t>& runs) {
  std::vector<double> means;
  for (const std::vector<double>& list : gaps) {
    double sum = 0;
    for (const size_t run : runs) sum += list[run];
    means.push_back(sum);
  }
  return kendall_tau(published, means);
}

// Every order where there are no more than 8! of them, else as many draws.
double chance_of(const std::vector<double>& published, double tau) {
  constexpr size_t all_of = 8, most = 40320;
  std::vector<double> order(published.size());
  std::iota(order.begin(), order.end(), 0.0);
  std::mt19937_64 engine(1);
  size_t tried = 0, as_large = 0;
  do {
    if (order.size() > all_of) std::shuffle(order.begin(), order.end(), engine);
    ++tried, as_large += kendall_tau(published, order) > tau - 1e-9;
  } while (order.size() > all_of ? tried < most : std::next_permutation(order.begin(), order.end()));
  return static_cast<double>(as_large) / static_cast<double>(tried);
}

Tau study_tau(const std::vector<std::vector<double>>& gaps, const std::vector<double>& published, size_t samples) {
  if (gaps.size() < 2) return {};
  std::vector<size_t> runs(gaps.front().size());
  std::iota(runs.begin(), runs.end(), size_t{0});
  Tau tau{.value = tau_of(gaps, published, runs)};
  std::mt19937_64 engine(1);
  std::vector<double> draws;
  for (size_t s = 0; s < samples; ++s) {
    std::vector<size_t> drawn(runs.size());
    for (size_t& run : drawn) run = engine() % runs.size();
    draws.push_back(tau_of(gaps, published, drawn));
  }
  tau.median = quantile(draws, 0.5);
  tau.interval = {quantile(draws, 0.025), quantile(draws, 0.975)};
  tau.chance = chance_of(published, tau.value);
  return tau;
}

}  // namespace

const std::vector<PublishedOrder>& published_orders() {
  static const std::vector<PublishedOrder> orders = [] {
    const NamedText file = open_named_json("language_models", "published", "published results");
    std::vector<PublishedOrder> list;
    const auto json = parse_json<nlohmann::ordered_json>(file.text, file.place);
    for (const auto& one : json.at("results")) {
      PublishedOrder order{one.at("source"), one.at("what"), {}};
      std::map<std::string, double> number;
      for (const auto& [name, value] : one.at("rows").items()) {
        const Interval range = value.is_array() ? Interval{value[0], value[1]} : Interval{value, value};
        order.numbers.emplace_back(name, number[name] = (range.low + range.high) / 2);
        if (one.contains("tokens_over")) order.tokens[name] = {1 + range.low / 100, 1 + range.high / 100};
      }
      if (one.contains("beside"))
        for (const auto& [name, other] : one.at("beside").items()) order.numbers.emplace_back(name, number.at(other));
      list.push_back(std::move(order));
    }
    return list;
  }();
  return orders;
}

std::optional<Agreement> agreement(const PublishedOrder& order,
                                   const std::map<std::string, std::vector<LawPoint>>& points,
                                   const std::string& baseline, size_t samples) {
  Agreement result;
  std::vector<double> published;
  for (const auto& [name, number] : order.numbers)
    if (points.contains(name)) result.recipes.push_back(name), published.push_back(number);
  if (result.recipes.size() < 2 || !points.contains(baseline)) return std::nullopt;
  const std::vector<std::vector<double>> gaps = gaps_in_common(result.recipes, points, baseline);
  if (gaps.front().size() < 3) return std::nullopt;
  std::vector<std::pair<double, std::string>> sums;
  for (size_t i = 0; i < gaps.size(); ++i)
    sums.emplace_back(std::accumulate(gaps[i].begin(), gaps[i].end(), 0.0), result.recipes[i]);
  std::sort(sums.begin(), sums.end());
  for (const auto& [sum, name] : sums) result.ours.push_back(name);
  std::vector<std::vector<double>> fp4_gaps;
  std::vector<double> fp4_published;
  for (size_t i = 0; i < gaps.size(); ++i)
    if (result.recipes[i] != "mxfp8") fp4_gaps.push_back(gaps[i]), fp4_published.push_back(published[i]);
  result.fp4_recipes = fp4_gaps.size();
  result.all = study_tau(gaps, published, samples);
  result.fp4 = study_tau(fp4_gaps, fp4_published, samples);
  return result;
}

}  // namespace fp4::sweeps
