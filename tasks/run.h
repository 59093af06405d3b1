// Decides: a training run by its JSON, for the command line and the sweep engine.
//   {"task": {"name": "classifier", ..}, "recipe": "mxfp4" or {..}, "train": {"steps": 300, ..}}
// and, where the run branches, {"branch": {"recipe": .., "at": 0.5}}: up to that share of the steps (from 1 on: that
// step) it follows the branch's recipe, its trunk; with "distil": 0.5 half of its loss then follows the outputs of the
// trunk's network. {"eval": {"recipe": ..}}: its metrics are those of the trained network under that recipe, whose
// digest covers both. The configuration becomes, in canonical form, the same sections in full; the seed stays outside,
// so that runs that differ in their seed only share a configuration hash. All functions may be called from several
// threads at once: data pools are built once per (task parameters, data_seed) and shared read-only.
#pragma once

#include <string>
#include <vector>

#include "sim/rules/schedule.h"
#include "sim/train/train.h"
#include "src/text/error.h"

namespace fp4::tasks {

using sim::Json;

/// Names of the tasks in display order, and one task's {"task": .., "train": ..} defaults with a "doc" line.
std::vector<std::string> task_names();
Json task_defaults(const std::string& name);
/// The rows (path, default, doc, words) of a task's parameters.
const sim::Schema& task_schema(const std::string& name);

/// The full configuration: recipe resolved ("mxfp4@wgrad", embedded name or object), defaults filled in, dead
/// fields erased, keys sorted. Throws fp4::Error for unknown names, fields, words and ranges.
Json canonical(const Json& given);

/// Its recipe alone, of a name, a path or an object; `place` opens messages.
Json canonical_recipe(const Json& given, const std::string& place = "recipe");

/// The words of a recipe that change what it computes: all but its name, doc, source and deviations.
Json nameless(Json recipe);

/// First 16 hex digits of SHA-256 over a canonical configuration; data files count by content, never by path.
std::string config_hash(const Json& canonical);

/// Why this configuration cannot run ("" when it can), for grids that count impossible points.
std::string invalid_reason(const Json& canonical);

/// Examples (lm: bytes) of a batch that count: token weights w leave (sum w)^2 / sum w^2 = n / exp(t^2) of n, in
/// expectation, with t = outliers.token. A run with t > 0 needs least_effective_batch of them (invalid_reason): below
/// that the largest weight of a batch makes the gradient, and every recipe is judged on a ruined training.
double effective_batch(const Json& canonical);
inline constexpr double least_effective_batch = 64;

/// The linear layers of a canonical configuration in the order of the forward pass, in the recipe's first phase.
std::vector<sim::LayerInfo> layers(const Json& canonical);

/// Rows of outputs, and weighted losses, of one example: the bytes of a sequence of lm, else 1.
int sequence_of(const Json& canonical);

/// Multiply-adds x steps of a canonical configuration: a static cost for scheduling, the same everywhere.
double static_cost(const Json& canonical);

/// The step after which a canonical configuration leaves its trunk; 0: it has none.
int branch_step(const Json& canonical);

/// The examples of a run do not fit the memory of this machine.
struct NoRoom : Error {
  using Error::Error;
};

/// One run, on the calling thread. A trunk, and a network that is evaluated, is trained first, or taken from
/// options.trunks, where runs of any recipe that share it find it. Deterministic: (configuration, seed, signature,
/// train signature of its task). Throws Error for what invalid_reason says, and NoRoom.
sim::History run(const Json& canonical, uint64_t seed, const sim::RunOptions& options = {});

/// Whether the file is a checkpoint of exactly this run, made by a program of these signatures; false for no file, a
/// damaged one and one of another run.
bool resumes(const std::string& checkpoint, const Json& canonical, uint64_t seed);

/// The network of a checkpoint under another recipe: a name, NAME@GEMM, NAME@weights, the path of a file or an object;
/// null: the training's own. Throws Error as reading the checkpoint does, for a recipe that cannot be, and where the
/// checkpoint was made under other signatures; messages name the file.
struct Evaluated {
  Json config;  // canonical, with that recipe
  sim::Evaluation result;
};
Evaluated evaluate(const std::string& checkpoint, const Json& recipe, const sim::RunOptions& options = {});

/// What training one task computes: 16 hex digits over its name and the digests of two frozen runs of 5 steps, seed 1,
/// one in fp32 and one in the preset mxfp4 (0.02 s for classifier, 1 s for lm). It covers the task's data and model,
/// the operations, layers and optimizer that it uses, and the default training settings; arithmetic_signature()
/// (src/backends/signature.h) covers the formats and products. Other tasks, and recipes and formats that are added,
/// leave it alone: results of `classifier` stay valid when `lm` changes.
std::string computed_train_signature(const std::string& task);

/// The same, for what a program writes and reads. The build of fp4sim computes it with the library that the program is
/// linked to (tools/CMakeLists.txt); elsewhere it is computed once, at the first call.
std::string train_signature(const std::string& task);

}  // namespace fp4::tasks
