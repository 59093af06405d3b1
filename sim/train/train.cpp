// The training loop; see train.h. One step: tape, loss, backward, optimizer; then, at 20 places, a point of the curve.
#include "sim/train/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <tuple>

#include "sim/engine/quantized_linear.h"
#include "sim/engine/trace.h"
#include "sim/rules/recipe.h"
#include "sim/train/checkpoint.h"
#include "sim/train/device_training.h"
#include "sim/train/example_pool.h"
#include "sim/train/low_bit_states.h"
#include "sim/train/optim.h"
#include "sim/train/task.h"
#include "src/arith/spec_text.h"
#include "src/files/sha256.h"
#include "src/text/error.h"

namespace fp4::sim {

namespace {

constexpr int divergence_window = 20;
constexpr double divergence_factor = 3;

// The steps after which the curve has a point: floor(i * steps / points), i = 1 .. points, each once.
std::vector<int> curve_steps(int steps, int points) {
  std::vector<int> at;
  for (int64_t i = 1; i <= points; ++i) {
    const int step = static_cast<int>(i * steps / points);
    if (step > 0 && (at.empty() || step > at.back())) at.push_back(step);
  }
  return at;
}

double thread_cpu_seconds() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

class Run {
 public:
  Run(const Task& task, const Json& config, uint64_t seed, const RunOptions& options)
      : task_(task),
        config_(config),
        options_(options),
        seed_(seed),
        ranks_(options.ranks ? options.ranks->count() : 1),
        rank_(options.ranks ? options.ranks->rank() : 0),
        train_(config.at("train")),
        recipe_(recipe_from_json(config.at("recipe"))),
        backend_(options.backend),
        kernels_(&kernels(backend_.name())),
        engine_(recipe_, backend_) {
    pass_.seed = seed;
    pass_.threads = options.threads;
    if (const int batch = train_.at("batch"); batch % ranks_ != 0)
      throw Error("train.batch: " + std::to_string(batch) + " examples cannot be shared evenly by " +
                  std::to_string(ranks_) + " ranks");
    for (const Phase& phase : recipe_.phases)
      if (phase.when > 0 && ranks_ > 1)
        throw Error("phases: `when` measures the gradient of one rank; accepted for several ranks: until");
    if (ranks_ > 1) mean_.emplace(options.wire, *options.ranks, backend_, *kernels_, seed);
    Builder build(parameters_, engine_);
    build.files = options.files;
    if (ranks_ == 1) build.stop = options.stop;
    model_ = task.model(build, config, seed);
    engine_.finish();
    parameters_.allocate(*kernels_, seed);
    model_->initialised(parameters_, *kernels_);
    place();
    optimizer_ =
        std::make_unique<Optimizer>(train_, recipe_.optimizer, recipe_.loss_scaling, parameters_,
                                    UpdateContext{recipe_.update, matrices(), &backend_, seed_, kernels_->device});
    if (recipe_.weights.ramp_every > 0 && !optimizer_->can_wait())
      throw Error("weights.ramp: needs the optimizer adam, adamw or stable_spam");
    steps_ = train_.at("steps");
    recent_.reserve(divergence_window + 1);
    points_ = curve_steps(steps_, train_.at("curve_points"));
    history_.metrics["trivial_loss"] = trivial_loss_ = model_->trivial_loss();
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
    const int first = step_;
    double saved = 0;
    if (options_.stop_at > 0 && (options_.stop_at <= first || options_.stop_at > steps_))
      throw Error("stop at step " + std::to_string(options_.stop_at) + ": the run goes from step " +
                  std::to_string(first + 1) + " to " + std::to_string(steps_));
    const double cpu_begin = thread_cpu_seconds();
    while (step_ < steps_ && history_.status == Status::finished) {
      const float loss = step();
      if (history_.status == Status::finished && next_point_ < points_.size() && step_ == points_[next_point_]) {
        const double before = thread_cpu_seconds();
        point();
        history_.evaluation_cpu_seconds += thread_cpu_seconds() - before;
      }
      const bool go_on =
          agreed(!options_.progress || options_.progress({step_, steps_, static_cast<double>(loss), elapsed()}));
      if ((!go_on || step_ == options_.stop_at) && step_ < steps_ && history_.status == Status::finished) {
        history_.status = Status::stopped;
        history_.message = "after step " + std::to_string(step_) + " of " + std::to_string(steps_);
      }
      if (options_.checkpoint_every > 0 && rank_ == 0 && step_ < steps_ && history_.status == Status::finished &&
          elapsed() - saved >= options_.checkpoint_every) {
        save();
        saved = elapsed();
      }
    }
    history_.step_cpu_seconds = thread_cpu_seconds() - cpu_begin - history_.evaluation_cpu_seconds;
    if (history_.status == Status::diverged && curve_count_ > 0) {
      history_.curve.push_back({step_, curve_sum_ / curve_count_, {}});
    }
    if (!options_.checkpoint_to.empty() && rank_ == 0 &&
        (options_.checkpoint_every == 0 || history_.status == Status::stopped))
      save();
    const double seconds = elapsed();
    history_.seconds = earlier_seconds_ + seconds;
    history_.steps_done = step_;
    history_.steps_per_second = seconds > 0 ? (step_ - first) / seconds : 0;
    history_.products = products();
    history_.digest = digest();
    if (ranks_ > 1) compare_digests();
    return history_;
  }

  Evaluation evaluate_checkpoint(const Checkpoint& c) {
    const auto begin = std::chrono::steady_clock::now();
    check_program(c, options_.resume_from);
    if (static_cast<int64_t>(c.weights.size()) != parameters_.total() || c.step < 1 || c.step > steps_)
      throw Error(options_.resume_from + ": its weights or its step are not those of the configuration", Error::failed);
    take_weights(c);
    if (c.config == config_ && !options_.measures_afresh)
      at_place(options_.resume_from, [&] {
        engine_.restore(c.held_amax);
        engine_.restore_weights(c.weight_rules, c.step);
      });
    pass_.step = static_cast<uint32_t>(c.step);
    engine_.begin_step(c.step, steps_);
    if (recipe_.ptq.any() || recipe_.attention.calibrates()) calibrate();
    Evaluation out;
    answers_ = &out.answers;
    answers_->keeps_outputs = options_.keeps_outputs;
    judge();
    out.metrics = history_.metrics;
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
    const std::string optimizer =
        recipe_.optimizer.empty() ? train_.at("optimizer").get<std::string>() : recipe_.optimizer;
    if (optimizer != "adam" && optimizer != "adamw" && optimizer != "sgd") return "optimizer " + optimizer;
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
        engine_.use(scope_->backend());
        floats_ = Arena(&kernels_->device->memory);
      }
    }
    parameters_.place(*kernels_);
    tape_.emplace(arena_, kernels_->device != nullptr ? floats_ : arena_, *kernels_, pass_);
  }

  // The network in fp32 reads the first batches of its training; then the layers' weights become codes.
  void calibrate() {
    engine_.begin_calibration();
    pass_.training = pass_.quantise = false;
    for (int batch = 1; batch <= recipe_.ptq.batches; ++batch) {
      tape_->reset();
      model_->training_loss(*tape_, batch);
    }
    engine_.finish_calibration(*tape_);
  }

  // The teacher's outputs on the batch of this step, in fp32.
  void hear_teacher() {
    const int64_t n = parameters_.total();
    own_.assign(parameters_.values(), parameters_.values() + n);
    std::copy(teacher_weights_.begin(), teacher_weights_.end(), parameters_.values());
    pass_.training = pass_.quantise = false;
    teacher_.speaks = true;
    tape_->reset();
    model_->training_loss(*tape_, step_);
    teacher_.speaks = false;
    pass_.training = pass_.quantise = true;
    std::copy(own_.begin(), own_.end(), parameters_.values());
  }

  void follow(std::vector<float> weights, double share) {
    teacher_weights_ = std::move(weights);
    teacher_.share = static_cast<float>(share);
    pass_.teacher = &teacher_;
  }

  // The weights of the layers that recipes quantise: neither embeddings nor heads.
  std::vector<int> matrices() const {
    std::vector<int> out;
    for (const LayerInfo& layer : engine_.layers())
      for (int i = 0; layer.quantisable && i < parameters_.count(); ++i)
        if (parameters_.name(i) == layer.name + ".weight") out.push_back(i);
    return out;
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
      trace = std::make_unique<Trace>(options_.trace, options_);
    pass_.trace = trace.get();
    pass_.seed = seed_of_rank(seed_, rank_);
    pass_.rank = rank_, pass_.ranks = ranks_;
    if (pass_.teacher != nullptr) hear_teacher();
    tape_->reset();
    Var loss = model_->training_loss(*tape_, step_);
    const float value = mean_loss(loss->value.data[0]);
    curve_sum_ += static_cast<double>(value), ++curve_count_;
    recent_.push_back(value);
    if (recent_.size() > divergence_window) recent_.erase(recent_.begin());
    if (!std::isfinite(value)) return diverge("the loss is not finite"), value;
    tape_->backward(loss, optimizer_->loss_scale());
    pass_.trace = nullptr;
    parameters_.finish_gradients(*tape_);
    if (mean_) {
      average_gradients();
      history_.bytes_sent = mean_->bytes_sent();
      share_held_amaxes();
    }
    if (!optimizer_->step(parameters_, *kernels_, step_, engine_.slow_weights(step_)))
      return diverge("a gradient is not finite"), value;
    if (!optimizer_->weights_are_finite()) return diverge("a weight is not finite"), value;
    pass_.seed = seed_;  // all ranks change weights alike
    const bool watches = options_.trace && options_.trace_every > 0;
    engine_.end_step(pass_, watches, trace ? &options_.trace : nullptr);
    double mean = 0;
    for (float l : recent_) mean += static_cast<double>(l) / divergence_window;
    if (recent_.size() == divergence_window && mean > divergence_factor * trivial_loss_)
      diverge("the training loss exceeds 3x that of the trivial predictor");
    return value;
  }

  // Over the ranks, on the host.
  void average_gradients() {
    const int64_t n = parameters_.total();
    const DeviceKernels* const device = kernels_->device;
    if (device == nullptr) return (*mean_)(parameters_.gradients(), n, pass_.step, pass_.threads);
    const int64_t bytes = static_cast<int64_t>(sizeof(float)) * n;
    own_.resize(static_cast<size_t>(n));
    device->download(own_.data(), parameters_.gradients(), bytes);
    (*mean_)(own_.data(), n, pass_.step, pass_.threads);
    device->upload(parameters_.gradients(), own_.data(), bytes);
  }

  // The mean of the ranks' losses, added in rank order.
  float mean_loss(float mine) {
    if (ranks_ == 1) return mine;
    std::vector<float> all(static_cast<size_t>(ranks_));
    options_.ranks->gather(&mine, all.data(), sizeof mine);
    float sum = 0;
    for (const float loss : all) sum += loss;
    return sum / static_cast<float>(ranks_);
  }

  // A signal to any rank ends all of them after the same step.
  bool agreed(bool go_on) {
    if (ranks_ == 1) return go_on;
    const uint8_t mine = go_on ? 1 : 0;
    std::vector<uint8_t> all(static_cast<size_t>(ranks_));
    options_.ranks->gather(&mine, all.data(), sizeof mine);
    return std::all_of(all.begin(), all.end(), [](uint8_t one) { return one == 1; });
  }

  // Tensor amaxes that are held for some steps become the largest of all ranks, where a recipe holds any.
  void share_held_amaxes() {
    std::vector<float> mine = engine_.state();
    if (std::none_of(mine.begin(), mine.end(), [](float amax) { return amax >= 0; })) return;
    std::vector<float> all(mine.size() * static_cast<size_t>(ranks_));
    options_.ranks->gather(mine.data(), all.data(), static_cast<int64_t>(sizeof(float) * mine.size()));
    for (size_t i = 0; i < all.size(); ++i) mine[i % mine.size()] = std::max(mine[i % mine.size()], all[i]);
    engine_.restore(mine);
  }

  void compare_digests() {
    std::string all(history_.digest.size() * static_cast<size_t>(ranks_), ' ');
    options_.ranks->gather(history_.digest.data(), all.data(), static_cast<int64_t>(history_.digest.size()));
    for (int i = 0; i < ranks_; ++i)
      if (const std::string other = all.substr(static_cast<size_t>(i) * history_.digest.size(), history_.digest.size());
          other != history_.digest)
        throw Error("rank " + std::to_string(i) + " ended with the digest " + other + ", rank " +
                        std::to_string(rank_) + " with " + history_.digest,
                    Error::failed);
  }

  // The configuration that a checkpoint belongs to: of several ranks, their number and wire count, too.
  Json checkpoint_config() const {
    Json config = config_;
    if (ranks_ > 1)
      config["ranks"] = {{"count", ranks_},
                         {"gradients", to_json(canonical(options_.wire.spec))},
                         {"hadamard", options_.wire.hadamard}};
    return config;
  }

  void diverge(const std::string& reason) {
    history_.status = Status::diverged;
    history_.message = reason + " (step " + std::to_string(step_) + ")";
  }

  double evaluate(int examples, bool quantise) {
    pass_.training = false;
    pass_.quantise = quantise;
    pass_.seed = options_.rounding_seed.value_or(seed_);  // all ranks evaluate alike
    pass_.answers = quantise ? answers_ : nullptr;
    pass_.log = quantise ? options_.forward_log : nullptr;
    return model_->validation_loss(*tape_, examples);
  }

  // The full evaluation, into the metrics; its loss.
  double judge() {
    const double loss = history_.metrics["loss"] = evaluate(0, true);
    model_->metrics(*tape_, history_.metrics);
    history_.metrics["loss_hp"] = evaluate(0, false);
    return loss;
  }

  // Validation at every second point; the last one is the full evaluation, which also gives the metrics.
  void point() {
    CurvePoint p;
    p.step = step_;
    p.train_loss = curve_sum_ / curve_count_;
    curve_sum_ = 0, curve_count_ = 0;
    ++next_point_;
    if (next_point_ == points_.size()) {
      p.validation_loss = judge();
    } else if (next_point_ % 2 == 0) {
      p.validation_loss = evaluate(task_.curve_validation_examples(), true);
    }
    history_.curve.push_back(p);
  }

  // Weights, little-endian fp32 in parameter order, then the losses of the curve as fp64. One NaN stands for all.
  std::string digest() const {
    Sha256 sha;
    float* const values = parameters_.host_values();
    for (int i = 0; i < parameters_.count(); ++i) {
      Tensor v = parameters_.value(i);
      v.data = values + (v.data - parameters_.values());
      for (int64_t j = 0; j < v.size(); ++j) {
        const float x = fp4::canonical(v.data[j]);
        if (bits_of(x) != bits_of(v.data[j])) v.data[j] = x;
      }
      sha.update(v.data, sizeof(float) * static_cast<size_t>(v.size()));
    }
    for (const CurvePoint& p : history_.curve)
      for (const auto& loss : {p.train_loss, p.validation_loss})
        if (loss) {
          const double l = std::isnan(*loss) ? std::numeric_limits<double>::quiet_NaN() : *loss;
          sha.update(&l, sizeof l);
        }
    return sha.hex().substr(0, 16);
  }

  void save_checkpoint(const std::string& path, double seconds) const {
    Checkpoint c;
    c.seconds = seconds;
    c.signature = options_.signature;
    c.train_signature = options_.train_signature;
    c.config = checkpoint_config();
    c.seed = seed_;
    c.step = step_;
    c.next_point = next_point_;
    const float* const values = parameters_.host_values();
    c.weights.assign(values, values + parameters_.total());
    c.optimizer = optimizer_->state();
    c.held_amax = engine_.state();
    c.weight_rules = engine_.weight_state();
    c.turned = engine_.turned();
    if (pass_.teacher != nullptr) c.teacher = teacher_weights_, c.distil = static_cast<double>(teacher_.share);
    c.recent = recent_;
    c.curve_sum = curve_sum_;
    c.curve_count = curve_count_;
    c.curve = history_.curve;
    c.products = products();
    write_checkpoint(path, c);
  }

  // Old steps under old arithmetic and new ones under new would be the result of neither.
  void check_program(const Checkpoint& c, const std::string& place) const {
    for (const auto& [what, there, here] : {std::tuple("signature", c.signature, options_.signature),
                                            std::tuple("train signature", c.train_signature, options_.train_signature)})
      if (there != here)
        throw Error(place + ": the checkpoint was made under " + what + " " + there + ", this program has " + here,
                    Error::failed);
  }

  void take_weights(const Checkpoint& c) { parameters_.set_values(c.weights.data()); }

  // Whoever made the file may have given it any hash: what does not fit the run or each other would be read past its
  // end or would wait for a step that has gone by.
  void check_parts(const Checkpoint& c, const std::string& path) const {
    const auto total = static_cast<size_t>(parameters_.total());
    const auto last = static_cast<int>(recipe_.phases.size()) - 1;
    const bool has_same_curve = options_.branch || c.next_point == next_point_;
    if (c.weights.size() != total || c.step < 0 || c.step > steps_ || !has_same_curve)
      throw Error(path + ": its weights or its step are not those of the configuration", Error::failed);
    if ((!c.teacher.empty() && c.teacher.size() != total) || !(c.distil >= 0 && c.distil <= 1) ||
        (!options_.branch && c.turned > std::max(last, 0)) || c.recent.size() > divergence_window ||
        c.curve_count > c.step ||
        std::any_of(c.curve.begin(), c.curve.end(), [&](const CurvePoint& p) { return p.step > c.step; }))
      throw Error(path + ": its teacher, phase or losses are not those of the configuration", Error::failed);
  }

  void load_checkpoint(const std::string& path) {
    const Checkpoint c = read_checkpoint(path);
    if (c.seed != seed_)
      throw Error(path + ": the checkpoint belongs to seed " + std::to_string(c.seed) + ", not " +
                  std::to_string(seed_));
    if (options_.branch) {
      if (c.config.at("task") != config_.at("task"))
        throw Error(path + ": the checkpoint belongs to another task or to other data; a branch keeps both");
      if (c.step >= steps_)
        throw Error(path + ": the checkpoint was made after step " + std::to_string(c.step) +
                    "; a branch needs more steps than that, found " + std::to_string(steps_));
      const Json name = c.config.at("recipe").value("name", Json(""));
      history_.parent = Parent{sha256_file(path).substr(0, 16), JsonReader(name, path).text(), c.step};
    } else if (const Json config = checkpoint_config(); c.config != config) {
      const Json change = Json::diff(c.config, config).at(0);
      throw Error(path + ": the checkpoint belongs to another configuration: " +
                  change.at("path").get<std::string>().substr(1) + " is different");
    }
    check_program(c, path);
    step_ = c.step;
    next_point_ = static_cast<size_t>(std::upper_bound(points_.begin(), points_.end(), step_) - points_.begin());
    check_parts(c, path);
    take_weights(c);
    if (options_.branch && recipe_.update.bf16_weights) round_to_bf16(parameters_.values(), parameters_.total());
    at_place(path, [&] {
      optimizer_->restore(c.optimizer, c.step);
      engine_.restore(c.held_amax);
      if (options_.branch) return;
      engine_.restore_weights(c.weight_rules, c.step);
      engine_.restore_turned(c.turned);
      earlier_seconds_ = c.seconds;
    });
    recent_ = c.recent;
    curve_sum_ = c.curve_sum, curve_count_ = c.curve_count;
    history_.curve = c.curve;
    earlier_products_ = c.products;
    if (options_.branch && options_.distil > 0)
      follow(c.weights, options_.distil);
    else if (!options_.branch && !c.teacher.empty())
      follow(c.teacher, c.distil);
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
  int ranks_, rank_;
  const Json& train_;
  Recipe recipe_;
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
  std::vector<int> points_;
  size_t next_point_ = 0;
  double trivial_loss_ = 0;
  std::vector<float> recent_;  // losses of the last steps
  double curve_sum_ = 0;
  int curve_count_ = 0;
  History history_;
  std::optional<GradientMean> mean_;
  Teacher teacher_;
  Answers* answers_ = nullptr;  // of an evaluation under the recipe
  std::vector<float> teacher_weights_, own_;
  std::array<PrecisionCounts, 3> earlier_products_;
  double earlier_seconds_ = 0;  // of the runs that this one goes on from
};

}  // namespace

const Schema& train_schema() {
  static const Schema schema = [] {
    Schema s = {{"steps", 600, "training steps", {}, 1, 1e9},
                {"batch", 128, "examples (lm: sequences) per step", {}, 1, 1 << 20},
                {"curve_points", 20, "points of the loss curve", {}, 1, 1e6}};
    const Schema optimizer = optimizer_schema();
    s.insert(s.end(), optimizer.begin(), optimizer.end());
    return s;
  }();
  return schema;
}

double mean_over_batches(Tape& tape, int count, int batch, const std::function<Var(int begin, int n)>& loss) {
  double total = 0;
  for (int begin = 0; begin < count; begin += batch) {
    const int n = std::min(batch, count - begin);
    tape.reset();
    total += static_cast<double>(loss(begin, n)->value.data[0]) * n;
  }
  return total / count;
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
    History history;
    history.status = Status::stopped;
    history.message = "before its first step, while examples were made";
    return history;
  }
}

}  // namespace fp4::sim
