// Orders of recipes that others published, and how far a ladder's gaps agree with them: Kendall's tau-b (ties allowed)
// between the published numbers and the mean paired gaps (gaps.h), over the recipes that both have.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sweeps/judge/law.h"

namespace fp4::sweeps {

struct PublishedOrder {
  std::string source;
  std::string what;                                     // of the numbers; smaller is better
  std::vector<std::pair<std::string, double>> numbers;  // by recipe
};
const std::vector<PublishedOrder>& published_orders();

struct Agreement {
  std::vector<std::string> recipes;  // in the published order
  std::vector<std::string> ours;     // the same ones by their mean gap here, the least first
  double tau = 0;
  Interval interval;   // the middle 95 % of bootstrap samples over the runs, the same ones for all recipes
  double tau_fp4 = 0;  // of the FP4 recipes alone: that FP8 is better than FP4 is no news
  Interval interval_fp4;
  size_t fp4 = 0;  // how many they are
};

// None where fewer than two of its recipes have runs beside the baseline's.
std::optional<Agreement> agreement(const PublishedOrder& order,
                                   const std::map<std::string, std::vector<LawPoint>>& points,
                                   const std::string& baseline, size_t samples);

}  // namespace fp4::sweeps
