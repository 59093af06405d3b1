// Training steps of `fp4sim bench train`: every recipe against the fp32 step of the same code, and against PyTorch.
#pragma once

#include "tools/bench/bench_race.h"

namespace fp4::tools {

struct TrainBenchOptions {
  std::vector<std::string> models;   // empty: the smallest, or with `full` all but the largest
  std::vector<std::string> recipes;  // empty: a selection, or with `full` all
  bool full = false;
  std::string backend = "auto";
  int threads = 1;
  int rounds = 3;
  int steps = 200;  // of the smallest model; larger ones take fewer
};

// A step, evaluations left out. Ratio: rate over that of the fp32 step.
struct TrainBenchRow : BenchRow {
  std::string model;
  std::string recipe;        // "pytorch fp32" for the comparison
  double ratio_pytorch = 0;  // rate over PyTorch's; 0 without it
};

const std::vector<std::string>& bench_models();

// `pytorch`: its version, or why there is no comparison; `show` gets the rows of each model. Throws Error, before
// timing a model, where a recipe's first steps differ from those of the reference.
void bench_train(const TrainBenchOptions& options, std::string& pytorch, const BenchReport& report,
                 const std::function<void(const std::vector<TrainBenchRow>&)>& show);

}  // namespace fp4::tools
