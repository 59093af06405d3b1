// What the sweep engine knows of training and of costs: a handful of functions, so that grids, engine, stores and
// statistics are tested with made-up trainings of a known truth, and bind to the real ones in one place.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sweeps/record.h"

namespace fp4::sweeps {

using Json = nlohmann::json;

// A configuration in and out: {"task": {"name": .., parameters}, "recipe": {..}, "train": {..}}. Every function may be
// called from several threads at once.
struct Simulator {
  std::function<Json(const Json& given)> canonical;
  std::function<std::string(const Json& canonical)> hash;            // 16 hex digits
  std::function<std::string(const Json& canonical)> invalid_reason;  // "" when it can run
  std::function<double(const Json& canonical)> static_cost;          // multiply-adds x steps
  // One run on the calling thread; what it throws becomes a failed row or ends the sweep (run_list.h). `quit` is polled
  // between steps.
  std::function<RunRecord(const Json& canonical, uint64_t seed, const std::function<bool()>& quit)> run;
  // The same with a checkpoint in `file` every `every` seconds and where `quit` ends it; a checkpoint of this very run
  // that stands there is gone on from. May be empty: then every run starts at its beginning.
  std::function<RunRecord(const Json& canonical, uint64_t seed, const std::function<bool()>& quit,
                          const std::string& file, double every)>
      run_with_checkpoints = {};
  std::function<Json(const std::string& name)> recipe;  // a named recipe in full, NAME@GEMM included
  std::function<bool(const std::string& task, const std::string& path)> task_has;  // task "" asks for the task itself
  std::string signature;                                                           // of the arithmetic
  std::function<std::string(const std::string&)> train_signature;                  // of a task (tasks/run.h)
};

// What a configuration costs on one chip for one workload. `weights` multiply single terms ("sr", "hadamard",
// ...) for the sensitivity of a front; absent means 1.
using CostWeights = std::map<std::string, double>;
struct Cost {
  double overhead = 0;
  double quantisation_overhead = 0;
  double step_time_s = 0;
  double energy_j = 0;  // NaN without power figures
  double price = 0;     // US dollars a step; NaN without a price
  double points = 0;    // 0: no score
  double speedup_bf16 = 1;
  double fp4_share = 0;  // of the multiply-adds
  std::string decoded;   // formats that the chip does not multiply, priced as bf16 products; "" without
};
struct CostModel {
  // `steps` of the training: recipes with phases cost their mean over them.
  std::function<Cost(const Json& recipe, int steps, const CostWeights& weights)> evaluate;
  // Seconds of the step by group ("matmul", "quantise", ...), for bars; may be empty.
  std::function<std::vector<std::pair<std::string, double>>(const Json& recipe, int steps)> groups = {};
  // The 95 % interval of the overhead by the model's stated doubt (cost/doubt.h); may be empty.
  std::function<std::pair<double, double>(const Json& recipe, int steps)> overhead_range = {};
  std::vector<std::string> weights = {"sr", "hadamard", "tensor_scale", "estimator",
                                      "bandwidth"};  // of the sensitivity
  std::string hardware;
  std::string model;
};

// The trainer of this program; `backend` as on the command line. With the signature (a tenth of a second's work) it may
// run and store; without, it only knows configurations.
Simulator real_simulator(const std::string& backend, bool with_signature = true);

// The cost model of this program for a chip and a workload (built-in names or .json paths); `weights` hold for every
// evaluation, a sensitivity's factor multiplies them.
CostModel real_cost_model(const std::string& hardware, const std::string& model, const CostWeights& weights = {});

}  // namespace fp4::sweeps
