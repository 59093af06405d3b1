// See orders.h.
#include "sweeps/judge/orders.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

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

Interval middle_of_taus(std::vector<double> values) { return {quantile(values, 0.025), quantile(values, 0.975)}; }

}  // namespace

const std::vector<PublishedOrder>& published_orders() {
  static const std::vector<PublishedOrder> orders = {
      {"2605.09825",
       "extra tokens over fp8",
       // Random signs and SR have no number there: they "fail to stabilize", and stand beside what they do not mend.
       {{"mxfp8", 0},
        {"mxfp4_fprop", 8.5},
        {"mxfp4_all_h16", 8.5},
        {"mxfp4_fprop_dgrad", 10.5},
        {"mxfp4_all", 26.5},
        {"mxfp4_all_rht16", 26.5},
        {"mxfp4_all_sr", 26.5}}},
      {"2509.25149", "loss above bf16's at 8B, %", {{"nvfp4_te", 1.5}, {"mxfp4_all", 2.5}}},
      {"2610.00053", "loss above bf16's at 8B, %", {{"mxfp4_all_h16", 2.1}, {"mxfp4_all", 6.5}}},
  };
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
  const size_t runs = gaps.front().size();
  if (runs < 3) return std::nullopt;
  std::vector<std::pair<double, std::string>> sums;
  for (size_t i = 0; i < gaps.size(); ++i)
    sums.emplace_back(std::accumulate(gaps[i].begin(), gaps[i].end(), 0.0), result.recipes[i]);
  std::sort(sums.begin(), sums.end());
  for (const auto& [sum, name] : sums) result.ours.push_back(name);
  std::vector<std::vector<double>> fp4_gaps;
  std::vector<double> fp4_published;
  for (size_t i = 0; i < gaps.size(); ++i)
    if (result.recipes[i] != "mxfp8") fp4_gaps.push_back(gaps[i]), fp4_published.push_back(published[i]);
  result.fp4 = fp4_gaps.size();
  std::vector<size_t> all(runs);
  for (size_t i = 0; i < runs; ++i) all[i] = i;
  result.tau = tau_of(gaps, published, all);
  result.tau_fp4 = tau_of(fp4_gaps, fp4_published, all);
  std::mt19937_64 engine(1);
  std::vector<double> taus, fp4_taus;
  for (size_t s = 0; s < samples; ++s) {
    std::vector<size_t> drawn(runs);
    for (size_t& run : drawn) run = engine() % runs;
    taus.push_back(tau_of(gaps, published, drawn));
    fp4_taus.push_back(tau_of(fp4_gaps, fp4_published, drawn));
  }
  result.interval = middle_of_taus(std::move(taus));
  result.interval_fp4 = middle_of_taus(std::move(fp4_taus));
  return result;
}

}  // namespace fp4::sweeps
