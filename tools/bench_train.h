// Training steps of `fp4sim bench train`: every recipe against the fp32 step of the same code, and against PyTorch.
#pragma once

#include <string>
#include <vector>

namespace fp4::tools {

struct TrainBenchOptions {
  std::vector<std::string> models;   // empty: all of bench_models()
  std::vector<std::string> recipes;  // empty: all
  std::string backend = "auto";
  int threads = 1;
  int rounds = 3;
  int steps = 200;  // of the smallest model; larger ones take fewer
};

struct TrainBenchRow {
  std::string model;
  std::string shape;
  std::string recipe;     // "pytorch fp32" for the comparison
  double seconds = 0;     // a step, evaluations left out; median of the rounds
  double to_fp32 = 0;     // time over the fp32 step's
  double to_pytorch = 0;  // rate over PyTorch's; 0 without it
};

const std::vector<std::string>& bench_models();

/// `pytorch`: its version, or why there is no comparison.
std::vector<TrainBenchRow> bench_train(const TrainBenchOptions& options, std::string& pytorch);

}  // namespace fp4::tools
