// Decides: what a training run is, from its outside: a function of (canonical configuration, seed). The result
// holds the curve, the metrics at the end, counts of what ran in which precision, and a digest of
// weights and curve. Progress, tracing and checkpoints observe a run and never change a bit of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fp4/spec.h"
#include "sim/engine/trace.h"
#include "sim/net/layers.h"
#include "sim/rules/config.h"
#include "sim/rules/schedule.h"
#include "sim/train/gradients.h"
#include "sim/train/status.h"

namespace fp4::gpu {
class Device;  // src/gpu/device.h
}

namespace fp4::sim {

class Task;  // sim/train/task.h

struct CurvePoint {
  int step = 0;                           // steps done
  std::optional<double> train_loss;       // mean since the previous point
  std::optional<double> validation_loss;  // forward as trained
};

/// Where a branch comes from: the SHA-256 of the checkpoint's file (16 hex digits), its step and its recipe's name.
struct Parent {
  std::string checkpoint, recipe;
  int step = 0;
};

struct History {
  Status status = Status::finished;
  std::string message;                    // why it diverged or failed, where it stopped
  std::map<std::string, double> metrics;  // loss, loss_hp, trivial_loss, accuracy, ...
  std::vector<CurvePoint> curve;
  std::string digest;  // 16 hex digits
  int steps_done = 0;
  double seconds = 0;           // with those of the runs it goes on from, where checkpoints are made on the way
  double steps_per_second = 0;  // of this process
  // CPU time of the calling thread, which other programs do not stretch: in training steps and in evaluations.
  double step_cpu_seconds = 0;
  double evaluation_cpu_seconds = 0;
  std::array<PrecisionCounts, 3> products;  // fprop, dgrad, wgrad
  std::optional<Parent> parent;             // of a run that branches from a checkpoint
  // With the backend gpu, how much of the training the device did, and why not all ("all"; "products; fc1:
  // estimator other than ste").
  std::string placement;
  int64_t bytes_sent = 0;  // of gradients, by this rank to others
};

struct Progress {
  int step = 0;
  int steps = 0;
  double train_loss = 0;  // last step
  double seconds = 0;
};

struct RunOptions {
  std::string backend = "auto";   // backend_names() of src/backends/backends.h
  gpu::Device* device = nullptr;  // trains there, whatever `backend`; null: with the backend gpu on the process's own
  int threads = 1;
  std::function<bool(const Progress&)> progress = {};  // called every step; false stops the run (status stopped)
  // Asked while examples are made, before the first step and before `progress` is; true ends the run with the status
  // stopped and no step done, and writes no checkpoint. Several ranks are not asked: they could not stop together.
  std::function<bool()> stop = {};
  std::function<void(const TraceRow&)> trace = {};
  int trace_every = 0;                  // steps between traced steps; 0: no trace
  int trace_from = 1;                   // first traced step
  std::vector<QuantSpec> trace_probes;  // tried on the same tensors (without a Hadamard), never trained with
  std::vector<std::pair<std::string, Accumulator>> trace_adders = {};  // tried on the same products, by their words
  std::string checkpoint_to;                                           // written where the run ends or stops
  double checkpoint_every = 0;  // s: also on the way, and not where the run ends; 0: as above only
  int stop_at = 0;              // the step after which it stops; 0: run to the end
  std::string resume_from;
  // The checkpoint may be of another recipe and training of the same task: this run goes on with its weights, moments,
  // curve and step, under its own recipe and its own schedule.
  bool branch = false;
  double distil = 0;   // of a branch: share of the loss that follows the outputs of the checkpoint's network in fp32
  std::string trunks;  // folder where trunks of branches are kept and shared (tasks/run.h); none: made for each run
  // Processes that share every batch (its size is a multiple of their number) and hold the same weights; all of them
  // call with the same arguments. Gradients travel as `wire` says. One rank is the ordinary run, bit for bit. Rank 0
  // alone writes checkpoints; where the `progress` of any rank is false, all stop after the same step.
  Ranks* ranks = nullptr;
  Wire wire = {};
  FileReading files = FileReading::memory;
  std::optional<uint64_t> rounding_seed = {};  // of an evaluation: random bits of this seed instead of the checkpoint's
  bool keeps_outputs = false;                  // of an evaluation: its answers keep all logits
  bool judges_whole = true;           // where nothing is left to train on resuming: the metrics are measured again
  bool measures_afresh = false;       // of an evaluation: what the checkpoint's own recipe holds is left out, too
  ForwardLog* forward_log = nullptr;  // of an evaluation: notes its forward products in the recipe's formats
  // Of this program: stored in a checkpoint and compared on resume (tasks/run.h fills them in).
  std::string signature = {}, train_signature = {}, data = {};
};

/// Runs `config` = {"recipe": .., "task": .., "train": ..} (canonical) on `task`. Divergence is a result;
/// fp4::Error comes only from impossible input.
History train(const Task& task, const Json& config, uint64_t seed, const RunOptions& options = {});

struct Checkpoint;  // sim/train/checkpoint.h

/// A trained network under a recipe, not trained further.
struct Evaluation {
  std::map<std::string, double> metrics;  // as History's: loss in the recipe's formats, loss_hp in fp32, accuracy, ..
  double seconds = 0;
  Answers answers;  // by example of the validation set (lm: by byte); empty where the loss has no classes
};

/// The network of `checkpoint` on the validation set under the recipe of `config`, whose task and training are those of
/// the checkpoint. Random bits are those of the checkpoint's seed (or options.rounding_seed) and step, so its own
/// recipe gives the metrics of a run that ended there, bit for bit. Held tensor amaxes count for that recipe alone;
/// another one measures each tensor. Throws Error where the checkpoint belongs to other weights or was made under other
/// signatures than `options`', whose resume_from names it.
Evaluation evaluate(const Task& task, const Json& config, const Checkpoint& checkpoint, const RunOptions& options);

/// The rows of the "train" section; a task gives its own defaults.
const Schema& train_schema();

}  // namespace fp4::sim
