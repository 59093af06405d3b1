// Tuning gives every configuration, baselines included, its own best value of the grid's tuned fields, one field after
// the other, by ladders on seeds that judge nothing. Comparisons at fp32's or anybody's fixed learning rate
// say which recipe suits that rate; comparisons at each one's best say which recipe is better.
//
// Tuning goes in rounds: a field has one round for the first rungs and one for each extension. What a round asks for
// depends on the losses of the rounds before alone, so an interrupted sweep asks for the same runs again.
//
// A few seeds do not know the best rung for certain. Sixteen identical recipes that are each judged at the one rung
// that ten seeds chose are called different in more than 5 % of comparisons (results/racing), so a configuration is
// judged at its `judged` best rungs (judge/rungs.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sweeps/training.h"

namespace fp4::sweeps {

// A ladder finds the value of one numeric setting (most often the learning rate) at which a configuration does best:
// rungs start * factor^e around the start, each run on tuning seeds that judge nothing else. The rung of least mean
// loss wins. Where it lies at an end the ladder grows by one rung there, three times at most. Then, with `parts` = 2,
// the two rungs beside the best join, sqrt(factor) away from it. A best value that is the last one tried is reported as
// `at edge`. Runs that diverge are worse than every loss.
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

// A line of the grid's "tune": a path below `train`, or into the recipe, and its ladder.
struct TunedField {
  std::string path;             // "train.lr", "wgrad.*.target"
  std::optional<double> start;  // none: the configuration's own value
  Ladder ladder;                // without its start
  size_t seeds = 3;
  size_t judged = 2;      // rungs on which the configuration is judged: those of least loss
  bool by_trunk = false;  // the whole training of the trunk chooses, for all its branches and evaluations
  // Whether words may rest on it: two rungs that judge, and none farther from the next than a factor of 1.42. With
  // less, equal recipes are told apart in up to 99 % of races (results/racing).
  bool may_race() const;
};

inline constexpr uint64_t first_tuning_seed = 2001;

// What tuning made of a configuration.
struct Tuned {
  Json config;  // canonical, with the values found
  bool at_edge = false;
  std::vector<Json> near = {};  // the same at the next best rungs of one field
};

// The value that a configuration has at a tuned path; of wildcards the first place that has one.
std::optional<double> tuned_value(const Json& canonical, const std::string& path);

class Tuner {
 public:
  // Mean loss of a configuration's hash over the first `seeds` tuning seeds; infinity when one of them diverged.
  using MeanLoss = std::function<std::optional<double>(const std::string& hash, size_t seeds)>;

  Tuner(std::vector<TunedField> fields, const Simulator& simulator);

  size_t rounds() const { return fields_.size() * rounds_of_field; }
  std::string round_name(size_t round) const;  // "tune train.lr", "tune train.lr, wider or finer"
  size_t seeds(size_t round) const { return field_of(round).seeds; }

  // The rungs that a round adds for a canonical configuration; `losses` knows the rounds before.
  std::vector<Json> rungs(const Json& canonical, size_t round, const MeanLoss& losses) const;
  // After all rounds. A rung without a loss (no run of it finished its round) counts as diverged.
  Tuned best(const Json& canonical, const MeanLoss& losses) const;

 private:
  static constexpr size_t rounds_of_field = 2 + most_extensions;  // rungs at first, extensions, rungs beside the best
  const TunedField& field_of(size_t round) const { return fields_[round / rounds_of_field]; }
  // The configuration whose losses choose the field's value.
  Json chooser(const Json& canonical, const TunedField& field) const;
  Json with_value(const Json& canonical, const TunedField& field, double value) const;
  /// None where the field takes no such value: half a step, a share above 1.
  std::optional<Json> rung_of(const Json& canonical, const TunedField& field, const Ladder& ladder, int exponent) const;
  Ladder ladder_of(const Json& canonical, const TunedField& field) const;
  Tuned tune(const Json& canonical, const TunedField& field, const MeanLoss& losses) const;
  // The exponents that round `last` of the field's ladder adds, or, with last = rounds_of_field, its end. `known`: mean
  // losses by exponent.
  Climb climb_to(const Json& canonical, const TunedField& field, size_t last, const MeanLoss& losses,
                 std::map<int, double>& known) const;

  std::vector<TunedField> fields_;
  const Simulator& simulator_;
};

}  // namespace fp4::sweeps
