// A ladder finds the value of one numeric setting (most often the learning rate) at which a configuration does best:
// rungs start * factor^e around the start, each run on tuning seeds that judge nothing else. The rung of least mean
// loss wins. Where it lies at an end the ladder grows by one rung there, three times at most; a best value that still
// lies at an end is reported as `at edge`. Then, with `parts` = 2, the two rungs beside the best join, sqrt(factor)
// away from it. Runs that diverge are worse than every loss.
#pragma once

#include <map>
#include <vector>

namespace fp4::sweeps {

struct Ladder {
  double start = 0;   // above 0
  double factor = 2;  // above 1
  int rungs = 4;      // at first: powers -rungs/2 .. rungs - 1 - rungs/2 of the factor, so -2..1 for 4
  int parts = 1;      // of a step in whole factors; exponents count these, so that 3 of 2 parts is factor^1.5
};

inline constexpr int most_extensions = 3;

// start * factor^(exponent/parts) to four significant digits, so that a table shows 0.002828 and another grid with the
// same ladder asks for the same runs.
double rung_value(const Ladder& ladder, int exponent);

struct Climb {
  std::vector<int> wanted;  // exponents whose losses are missing; empty: `best` is known
  int best = 0;
  bool at_edge = false;
};

// `mean_loss` by exponent, of all tuning seeds; infinity where one diverged. Equal means: the smaller value wins.
Climb climb(const Ladder& ladder, const std::map<int, double>& mean_loss);

}  // namespace fp4::sweeps
