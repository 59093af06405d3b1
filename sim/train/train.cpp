// The training loop; see train.h. One step: tape, loss, backward, optimizer; then, at 20 places, a point of the curve.
#include "sim/train/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "sim/engine/quantized_linear.h"
#include "sim/rules/recipe.h"
#include "sim/train/checkpoint.h"
#include "sim/train/device_training.h"
#include "sim/train/example_pool.h"
#include "sim/train/gradients.h"
#include "sim/train/optim.h"
#include "sim/train/task.h"
#include "sim/train/validation.h"
#include "src/text/error.h"

namespace fp4::sim {

namespace {

double thread_cpu_seconds() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Another network, the teacher, whose outputs the loss mixes into the labels.
class FollowedNetwork {
 public:
  /// From here on losses follow the network of these weights, by `share` of the loss.
  void follow(std::vector<float> weights, double share, Pass& pass) {
    weights_ = std::move(weights);
    teacher_.share = static_cast<float>(share);
    pass.teacher = &teacher_;
  }

  /// Runs the teacher in fp32 on the batch of `step`: what it gives is what the step's loss follows.
  void run(Parameters& parameters, Pass& pass, Tape& tape, Model& model, int step) {
    if (pass.teacher == nullptr) return;
    own_.assign(parameters.values(), parameters.values() + parameters.total());
    std::copy(weights_.begin(), weights_.end(), parameters.values());
    pass.training = pass.quantise = false;
    teacher_.records = true;
    tape.reset();
    model.training_loss(tape, step);
    teacher_.records = false;
    pass.training = pass.quantise = true;
    std::copy(own_.begin(), own_.end(), parameters.values());
  }

  void save(Checkpoint& to) const {
    if (!weights_.empty()) to.teacher = weights_, to.distil = static_cast<double>(teacher_.share);
  }

 private:
  Teacher teacher_;
  std::vector<float> weights_, own_;
};

class Run {
 public:
  Run(const Task& task, const Json& config, uint64_t seed, const RunOptions& options)
      : task_(task),
        config_(config),
        options_(options),
        seed_(seed),
        train_(config.at("train")),
        ranks_(options.ranks, options.wire, train_.at("batch")),
        recipe_(recipe_from_json(config.at("recipe"))),
        backend_(options.backend),
        kernels_(&kernels(backend_.name())),
        engine_(recipe_, backend_) {
    pass_.seed = seed;
    pass_.threads = options.threads;
    for (const Phase& phase : recipe_.phases)
      if (phase.when > 0 && !ranks_.is_alone())
        throw Error("phases: `when` measures the gradient of one rank; accepted for several ranks: until");
    ranks_.join(backend_, *kernels_, seed);
    Builder build(parameters_, engine_);
    build.files = options.files;
    if (ranks_.is_alone()) build.stop = options.stop;
    model_ = task.model(build, config, seed);
    engine_.finish();
    parameters_.allocate(*kernels_, seed);
    model_->initialised(parameters_, *kernels_);
    place();
    optimizer_ = std::make_unique<Optimizer>(train_, recipe_.optimizer, recipe_.loss_scaling, parameters_,
                                             UpdateContext{&backend_, seed_, kernels_->device});
    if (recipe_.weights.ramp_every > 0 && !optimizer_->can_wait())
      throw Error("weights.ramp: needs the optimizer adam or adamw");
    steps_ = train_.at("steps");
    const double trivial_loss = history_.metrics["trivial_loss"] = model_->trivial_loss();
    curve_.emplace(steps_, train_.at("curve_points"), trivial_loss);
    validation_.emplace(*model_, *tape_, seed_, options_);
  }

  History run() {
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const auto save = [&] {
      save_checkpoint(options_.checkpoint_to, options_.checkpoint_every > 0 ? earlier_seconds_ + elapsed() : 0);
    };
    if (!options_.resume_from.empty()) load_checkpoint(options_.resume_from);
    ranks_.check_alike(config_, seed_, step_, options_.stop_at);
    const int first = step_;
    double saved = 0;
    if (options_.stop_at > 0 && (options_.stop_at <= first || options_.stop_at > steps_))
      throw Error("stop at step " + std::to_string(options_.stop_at) + ": the run goes from step " +
                  std::to_string(first + 1) + " to " + std::to_string(steps_));
    if (first == steps_ && options_.judges_whole) {  // nothing is left to do but to judge
      pass_.step = static_cast<uint32_t>(steps_);
      engine_.begin_step(steps_, steps_);
      validation_->judge(history_.metrics);
    }
    const double cpu_begin = thread_cpu_seconds();
    while (step_ < steps_ && history_.status == Status::finished) {
      const float loss = step();
      if (history_.status == Status::finished && curve_->has_point_after(step_)) {
        const double before = thread_cpu_seconds();
        point();
        history_.evaluation_cpu_seconds += thread_cpu_seconds() - before;
      }
      const bool go_on =
          ranks_.agreed(!options_.progress || options_.progress({step_, steps_, static_cast<double>(loss), elapsed()}));
      if ((!go_on || step_ == options_.stop_at) && step_ < steps_ && history_.status == Status::finished) {
        history_.status = Status::stopped;
        history_.message = "after step " + std::to_string(step_) + " of " + std::to_string(steps_);
      }
      if (options_.checkpoint_every > 0 && ranks_.rank() == 0 && step_ < steps_ &&
          history_.status == Status::finished && elapsed() - saved >= options_.checkpoint_every) {
        save();
        saved = elapsed();
      }
    }
    history_.step_cpu_seconds = thread_cpu_seconds() - cpu_begin - history_.evaluation_cpu_seconds;
    if (const std::optional<double> mean = curve_->mean_loss(); mean && history_.status == Status::diverged)
      history_.curve.push_back({step_, mean, {}});
    if (!options_.checkpoint_to.empty() && ranks_.rank() == 0 &&
        (options_.checkpoint_every == 0 || history_.status == Status::stopped))
      save();
    const double seconds = elapsed();
    history_.seconds = earlier_seconds_ + seconds;
    history_.steps_done = step_;
    history_.steps_per_second = seconds > 0 ? (step_ - first) / seconds : 0;
    history_.products = products();
    history_.digest = training_digest(parameters_, history_.curve);
    ranks_.compare(history_.digest);
    return history_;
  }

  Evaluation evaluate_checkpoint(const Checkpoint& c) {
    const auto begin = std::chrono::steady_clock::now();
    check_program(c, options_, options_.resume_from);
    if (static_cast<int64_t>(c.weights.size()) != parameters_.total() || c.step < 1 || c.step > steps_)
      throw Error(options_.resume_from + ": its weights or its step are not those of the configuration", Error::failed);
    parameters_.set_values(c.weights.data());
    if (c.config == config_ && !options_.measures_afresh)
      at_place(options_.resume_from, [&] {
        engine_.restore(c.held_amax);
        engine_.restore_weights(c.weight_rules, c.step);
      });
    pass_.step = static_cast<uint32_t>(c.step);
    engine_.begin_step(c.step, steps_);
    if (recipe_.ptq.any() || recipe_.attention.calibrates()) validation_->calibrate(engine_, recipe_.ptq.batches);
    Evaluation out;
    out.metrics = history_.metrics;
    out.answers.keeps_outputs = options_.keeps_outputs;
    validation_->judge(out.metrics, &out.answers);
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return out;
  }

 private:
  // Why this training cannot live in a device's memory; empty when it can.
  std::string reason_against_device() {
    if (options_.trace) return "trace";
    if (options_.forward_log != nullptr) return "a log of forward products";
    if (options_.distil > 0 ||
        (!options_.resume_from.empty() && !read_checkpoint(options_.resume_from).teacher.empty()))
      return "distil";
    if (const std::string reason = task_.reason_against_device(config_); !reason.empty()) return reason;
    return engine_.reason_against_device();
  }

  // Weights go to the device where there is one and it can do all the rest.
  void place() {
    gpu::Device* device = options_.device;
    if (device == nullptr && backend_.name() == "gpu") device = gpu::this_device();
    if (device != nullptr) {
      const std::string reason = reason_against_device();
      history_.placement = reason.empty() ? "all" : "products; " + reason;
      if (reason.empty()) {
        scope_.emplace(*device);
        kernels_ = &device::table;
        engine_.use(&scope_->backend());
        floats_ = Arena(&kernels_->device->memory);
      }
    }
    parameters_.place(*kernels_);
    tape_.emplace(arena_, kernels_->device != nullptr ? floats_ : arena_, *kernels_, pass_);
  }

  // One training step; sets status `diverged` when a loss, gradient or weight is not finite, or the last losses are far
  // above the trivial predictor's.
  float step() {
    ++step_;
    pass_.step = static_cast<uint32_t>(step_);
    engine_.begin_step(step_, steps_);
    pass_.training = pass_.quantise = true;
    std::unique_ptr<Trace> trace;
    if (options_.trace && options_.trace_every > 0 && step_ >= options_.trace_from &&
        (step_ - options_.trace_from) % options_.trace_every == 0)
      trace = std::make_unique<Trace>(options_.trace, TraceProbes{options_.trace_probes, options_.trace_adders});
    pass_.trace = trace.get();
    pass_.seed = seed_of_rank(seed_, ranks_.rank());
    pass_.rank = ranks_.rank(), pass_.ranks = ranks_.count();
    teacher_.run(parameters_, pass_, *tape_, *model_, step_);
    tape_->reset();
    Var loss = model_->training_loss(*tape_, step_);
    const float value = ranks_.mean_loss(loss->value.data[0]);
    curve_->add(value);
    if (!std::isfinite(value)) return diverge("the loss is not finite"), value;
    tape_->backward(loss, optimizer_->loss_scale());
    pass_.trace = nullptr;
    parameters_.finish_gradients(*tape_);
    if (!ranks_.is_alone()) {
      ranks_.average(kernels_->device, parameters_.gradients(), parameters_.total(), pass_.step, pass_.threads);
      history_.bytes_sent = ranks_.bytes_sent();
      share_held_amaxes();
    }
    if (!optimizer_->step(parameters_, *kernels_, step_, engine_.slow_weights(step_)))
      return diverge("a gradient is not finite"), value;
    if (!optimizer_->weights_are_finite()) return diverge("a weight is not finite"), value;
    pass_.seed = seed_;  // all ranks change weights alike
    const bool watches = options_.trace && options_.trace_every > 0;
    engine_.end_step(pass_, watches, trace ? &options_.trace : nullptr);
    if (curve_->is_far_above_trivial()) diverge("the training loss exceeds 3x that of the trivial predictor");
    return value;
  }

  // Tensor amaxes that are held for some steps become the largest of all ranks, where a recipe holds any.
  void share_held_amaxes() {
    std::vector<float> mine = engine_.state();
    if (std::none_of(mine.begin(), mine.end(), [](float amax) { return amax >= 0; })) return;
    ranks_.share_largest(mine);
    engine_.restore(mine);
  }

  // The configuration that a checkpoint belongs to: of several ranks, their number and wire count, too.
  Json checkpoint_config() const {
    Json config = config_;
    ranks_.describe(config);
    return config;
  }

  void diverge(const std::string& reason) {
    history_.status = Status::diverged;
    history_.message = reason + " (step " + std::to_string(step_) + ")";
  }

  // Validation at every second point; the last one is the full evaluation, which also gives the metrics.
  void point() {
    CurvePoint p = {.step = step_, .train_loss = curve_->mean_loss()};
    curve_->close_point();
    if (curve_->is_complete())
      p.validation_loss = validation_->judge(history_.metrics);
    else if (curve_->next_point() % 2 == 0)
      p.validation_loss = validation_->loss(task_.curve_validation_examples(), true);
    history_.curve.push_back(p);
  }

  void save_checkpoint(const std::string& path, double seconds) const {
    Checkpoint c;
    c.seconds = seconds;
    c.signature = options_.signature;
    c.train_signature = options_.train_signature;
    c.data = options_.data;
    c.config = checkpoint_config();
    c.seed = seed_;
    c.step = step_;
    const float* const values = parameters_.host_values();
    c.weights.assign(values, values + parameters_.total());
    c.optimizer = optimizer_->state();
    c.held_amax = engine_.state();
    c.weight_rules = engine_.weight_state();
    c.turned = engine_.turned();
    teacher_.save(c);
    curve_->save(c);
    c.curve = history_.curve;
    c.products = products();
    write_checkpoint(path, c);
  }

  void load_checkpoint(const std::string& path) {
    const Checkpoint c = read_checkpoint(path);
    const Json config = checkpoint_config();
    Continuation here = {config, seed_, steps_, parameters_.total(), static_cast<int>(recipe_.phases.size()), 0};
    history_.parent = check_origin(c, here, options_.branch, path);
    check_program(c, options_, path);
    curve_->go_to(step_ = c.step);
    here.next_point = curve_->next_point();
    check_parts(c, here, options_.branch, path);
    parameters_.set_values(c.weights.data());
    at_place(path, [&] {
      optimizer_->restore(c.optimizer, c.step);
      engine_.restore(c.held_amax);
      if (options_.branch) return;
      engine_.restore_weights(c.weight_rules, c.step);
      engine_.restore_turned(c.turned);
      earlier_seconds_ = c.seconds;
    });
    curve_->restore(c);
    history_.curve = c.curve;
    earlier_products_ = c.products;
    if (options_.branch && options_.distil > 0)
      teacher_.follow(c.weights, options_.distil, pass_);
    else if (!options_.branch && !c.teacher.empty())
      teacher_.follow(c.teacher, c.distil, pass_);
  }

  // Those of the steps before the checkpoint that this run goes on from, too.
  std::array<PrecisionCounts, 3> products() const {
    std::array<PrecisionCounts, 3> all = engine_.products();
    for (size_t gemm = 0; gemm < all.size(); ++gemm)
      for (const auto& [words, n] : earlier_products_[gemm]) all[gemm][words] += n;
    return all;
  }

  const Task& task_;
  const Json& config_;
  const RunOptions& options_;
  uint64_t seed_;
  const Json& train_;
  RankGroup ranks_;
  TrainingRecipe recipe_;
  Dispatcher backend_;
  const Kernels* kernels_;
  std::optional<DeviceScope> scope_;  // outlives all that lies on its device
  Parameters parameters_;
  LinearEngine engine_;
  Arena arena_, floats_;
  Pass pass_;
  std::optional<Tape> tape_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  int steps_ = 0, step_ = 0;
  std::optional<LossCurve> curve_;
  std::optional<Validation> validation_;
  FollowedNetwork teacher_;
  History history_;
  std::array<PrecisionCounts, 3> earlier_products_;
  double earlier_seconds_ = 0;  // of the runs that this one goes on from
};

}  // namespace

const Schema& train_schema() {
  static const Schema schema = {
      {"steps", 600, "training steps", {}, 1, 1e9},
      {"batch", 128, "examples (lm: sequences) per step", {}, 1, 1 << 20},
      {"curve_points", 20, "points of the loss curve", {}, 1, 1e6},
      {"optimizer", "adamw", "update rule", optimizer_words()},
      {"lr", 1e-3, "learning rate", {}, 0, 1e3},
      {"schedule", "cosine", "learning rate after the warm-up", {"cosine", "linear", "constant"}},
      {"final_lr", 0.1, "last learning rate as a share of lr", {}, 0, 1},
      {"warmup", 0, "steps of linear warm-up", {}, 0, 1e9},
      {"beta1", 0.9, "decay of the first moment", {}, 0, 1},
      {"beta2", 0.95, "decay of the second moment", {}, 0, 1},
      {"eps", 1e-8, "added to the root of the second moment", {}, 0, 1},
      {"weight_decay", 0.0, "decoupled weight decay of adamw (sgd: L2, adam: none)", {}, 0, 1e3},
      {"momentum", 0.0, "of sgd", {}, 0, 1},
      {"clip", 0.0, "largest global gradient norm, 0: no clipping", {}, 0, 1e9},
  };
  return schema;
}

Evaluation evaluate(const Task& task, const Json& config, const Checkpoint& checkpoint, const RunOptions& options) {
  RunOptions to_its_end = options;
  to_its_end.stop = {};
  return Run(task, config, checkpoint.seed, to_its_end).evaluate_checkpoint(checkpoint);
}

History train(const Task& task, const Json& config, uint64_t seed, const RunOptions& options) {
  try {
    return Run(task, config, seed, options).run();
  } catch (const DataStopped&) {
    History history = {.status = Status::stopped, .message = "before its first step, while examples were made"};
    return history;
  }
}

}  // namespace fp4::sim
