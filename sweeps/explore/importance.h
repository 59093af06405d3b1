// Importance sampling of configurations: what a pilot says of the others, and the chance that each shall have.
#pragma once

#include <vector>

#include "sweeps/judge/results.h"

namespace fp4::sweeps {

struct Prediction {
  std::vector<double> value;  // of ln(gap), by configuration
  double residual_sd = 0;     // on the pilot
};

// Ridge regression of ln(gap + 1e-4) on the pilot (penalty 1, intercept free): additive in the axes, which is enough to
// tell promising corners from hopeless ones; the probabilities make up for where it is wrong.
Prediction predict_gaps(const std::vector<const ConfigResult*>& all, const std::vector<const ConfigResult*>& pilot,
                        const std::vector<double>& gaps);

// Inclusion probabilities: pi = min(1, c * max(exp(-z), floor)), c such that those of the `open` entries (all, when it
// is empty) add up to the budget, or all 1 when it covers them.
std::vector<double> inclusion_probabilities(const std::vector<double>& z, double budget,
                                            const std::vector<bool>& open = {}, double floor = 0.05);

}  // namespace fp4::sweeps
