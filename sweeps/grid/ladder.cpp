#include "sweeps/grid/ladder.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace fp4::sweeps {

double rung_value(const Ladder& ladder, int exponent) {
  if (exponent == 0) return ladder.start;  // as the user wrote it
  char text[32];
  std::snprintf(text, sizeof text, "%.3e", ladder.start * std::pow(ladder.factor, exponent));
  return std::strtod(text, nullptr);
}

Climb climb(const Ladder& ladder, const std::map<int, double>& mean_loss) {
  int low = -(ladder.rungs / 2);
  int high = low + ladder.rungs - 1;
  for (int extensions = 0;; ++extensions) {
    Climb result;
    for (int e = low; e <= high; ++e) {
      if (!mean_loss.contains(e)) result.wanted.push_back(e);
    }
    if (!result.wanted.empty()) return result;
    result.best = low;
    for (int e = low; e <= high; ++e) {
      if (mean_loss.at(e) < mean_loss.at(result.best)) result.best = e;
    }
    result.at_edge = result.best == low || result.best == high;
    if (!result.at_edge || extensions == most_extensions) return result;
    (result.best == low ? low : high) += result.best == low ? -1 : 1;
  }
}

}  // namespace fp4::sweeps
