#include "sweeps/grid/ladder.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace fp4::sweeps {

double rung_value(const Ladder& ladder, int exponent) {
  if (exponent == 0) return ladder.start;  // as the user wrote it
  char text[32];
  std::snprintf(text, sizeof text, "%.3e",
                ladder.start * std::pow(ladder.factor, static_cast<double>(exponent) / ladder.parts));
  return std::strtod(text, nullptr);
}

// The rungs between the best one and its neighbours.
static void look_beside(const Ladder& ladder, const std::map<int, double>& mean_loss, Climb& end) {
  const int middle = end.best;
  for (const int e : {middle - ladder.parts / 2, middle + ladder.parts / 2}) {
    const auto loss = mean_loss.find(e);
    if (loss == mean_loss.end()) {
      end.wanted.push_back(e);
    } else if (loss->second < mean_loss.at(end.best)) {
      end.best = e;
    }
  }
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
      if (ladder.parts > 1) look_beside(ladder, mean_loss, result);
      return result;
    }
    (result.best == low ? low : high) += result.best == low ? -ladder.parts : ladder.parts;
  }
}

}  // namespace fp4::sweeps
