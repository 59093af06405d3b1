// Orders of recipes that others published, and how far a ladder's gaps agree with them: Kendall's tau-b (ties allowed)
// between the published numbers and the mean paired gaps (gaps.h), over the recipes that both have.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sweeps/judge/law.h"

namespace fp4::sweeps {

struct PublishedOrder {
  std::string source;
  std::string what;                                     // of the numbers; smaller is better
  std::vector<std::pair<std::string, double>> numbers;  // by recipe; the middle of a range
  std::map<std::string, Interval> tokens = {};          // of those in tokens over fp8: as multiples of fp8's
  std::string noise = {};  // of the numbers, as the source states it or its tests' sizes say
};
// sweeps/published: what others measured of recipes in training language models.
const std::vector<PublishedOrder>& published_orders();

struct Tau {
  double value = 0;
  double median = 0;  // of the bootstrap samples over the runs, the same ones for all recipes
  Interval interval;  // their middle 95 %
  double chance = 1;  // p: the share of all orders of these recipes whose tau is as large or larger
};

struct Agreement {
  std::vector<std::string> recipes;  // in the published order
  std::vector<std::string> ours;     // the same ones by their mean gap here, the least first
  Tau all;
  Tau fp4;  // of the FP4 recipes alone: that FP8 is better than FP4 is no news
  size_t fp4_recipes = 0;
};

// None where fewer than two of its recipes have runs beside the baseline's.
std::optional<Agreement> agreement(const PublishedOrder& order,
                                   const std::map<std::string, std::vector<LawPoint>>& points,
                                   const std::string& baseline, size_t samples);

}  // namespace fp4::sweeps
