// Extra tokens: how many % more training examples (tokens) a recipe needs than a baseline for the same loss: the
// horizontal distance between two curves loss(tokens). Two kinds of curves are comparable along their way:
//   ladders of budgets   the same recipe at several train.steps, each run to the end of its own schedule
//   constant rates       the smoothed validation curve of runs whose learning rate never falls
// Means over seeds make the curves; the interval is a jackknife over seeds. "Not reached" stays a value: a bound.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sweeps/judge/results.h"
#include "sweeps/judge/statistics.h"

namespace fp4::sweeps {

struct LossCurve {
  std::vector<double> tokens;                                            // rising
  std::map<uint64_t, std::vector<double>> loss;                          // by seed, one for each entry of `tokens`
  std::vector<double> mean(std::optional<uint64_t> without = {}) const;  // over the seeds but one
};

// Where a curve first falls to a target, by straight lines against the logarithm of the tokens. before: it is there at
// the first point already; never: not up to the last one; `tokens` is then that point's.
struct Crossing {
  enum class Reach : uint8_t { at, before, never } reach;
  double tokens;
};
Crossing crossing(const std::vector<double>& tokens, const std::vector<double>& loss, double target);

// exact: `share` is the estimate; above, below: only a bound is known, since a curve ends.
enum class Bound : uint8_t { exact, above, below };
struct ExtraTokens {
  double share = 0;  // .25: a quarter more
  Bound bound = Bound::exact;
  std::optional<Interval> raw;  // 95 %, of this comparison alone; none below three seeds or beside a bound
};
std::string text(const ExtraTokens& extra);  // "+25.0 %", ">+60.0 %"

// On the seeds that both have. Without a target, at the last budget: the loss that the worse of the two ends at.
std::optional<ExtraTokens> extra_tokens(const LossCurve& recipe, const LossCurve& baseline,
                                        std::optional<double> target = {});

// The curves of a sweep's configurations.
class TokenCurves {
 public:
  explicit TokenCurves(const Results& results);

  // Tokens that this configuration needs above those of a plain recipe (fp32, mxfp8) in the same training, over the
  // confirm seeds or over the others; from its ladder up to its own budget where the sweep has one, else, at `target`,
  // from curves of a constant rate. None: no such baseline, no such curves, or a run that diverged.
  std::optional<ExtraTokens> over(const ConfigResult& config, const std::string& baseline, bool confirm,
                                  std::optional<double> target) const;

 private:
  using Rungs = std::map<double, const ConfigResult*>;  // by tokens
  std::string member(const ConfigResult& config) const;
  const ConfigResult* baseline_of(const ConfigResult& config, const std::string& baseline) const;
  LossCurve ladder(const Rungs& rungs, double last, bool confirm) const;

  const Results& results_;
  std::map<std::string, std::string> ladder_of_;  // hash of an fp32 reference -> what its ladder shares
  std::map<std::string, Rungs> rungs_;            // by ladder and recipe
  std::map<std::pair<std::string, std::string>, const ConfigResult*> plain_;  // by fp32 reference and recipe
};

// Validation along the way of the runs that finished, smoothed by a running mean of three points.
LossCurve validation_curve(const Results& results, const ConfigResult& config, bool confirm);
// True when the configuration trains with a constant learning rate.
bool has_constant_rate(const std::string& config);
// Examples (for the language model: bytes) that one step of this configuration reads.
double tokens_per_step(const Json& config);

// The default target of curves of a constant rate: the fp32 runs' smoothed validation loss at three quarters of
// training, so that fp32 reaches it and a worse run has a quarter of the schedule left to.
std::optional<double> default_target(const LossCurve& reference);

// What gaps are divided by to become shares: fp32's mean loss, above the irreducible part where the task tells it
// (metric `irreducible_loss`).
struct LossScale {
  double loss = unknown;
  bool above_irreducible = false;
};
LossScale loss_scale(const Results& results, const ConfigResult& config);

}  // namespace fp4::sweeps
