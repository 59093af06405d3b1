// Decides: what the trainer needs to know about a problem. A Task describes it (parameters, defaults) and builds, for
// one run, a Model: layers, batches and losses. Data pools are read-only and shared between runs
// (sim/train/example_pool.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sim/net/layers.h"
#include "sim/rules/config.h"

namespace fp4::sim {

class Model {
 public:
  virtual ~Model() = default;
  /// Mean weighted loss of the batch of a training step (1, 2, ..).
  virtual Var training_loss(Tape& tape, int step) = 0;
  /// Mean loss over the first `examples` of the validation set, 0: all of it.
  virtual double validation_loss(Tape& tape, int examples) = 0;
  /// Loss of the best constant output on the validation set; a run whose training loss exceeds 3x this diverged.
  virtual double trivial_loss() const = 0;
  /// Further metrics at the end (accuracy, sliced Wasserstein distance).
  virtual void metrics(Tape& tape, std::map<std::string, double>& out) {
    static_cast<void>(tape), static_cast<void>(out);
  }
  /// After the parameters have their initial values and before step 1: outlier factors in gains, a student that
  /// starts near its teacher.
  virtual void initialised(Parameters& parameters, const Kernels& k) {
    static_cast<void>(parameters), static_cast<void>(k);
  }
};

/// Examples of the validation set that a point of the curve uses.
inline constexpr int curve_examples = 512;

class Task {
 public:
  virtual ~Task() = default;
  virtual std::string name() const = 0;
  virtual std::string doc() const = 0;
  /// Rows of the task's parameters; defaults may follow from others that are given (a variant).
  virtual Schema schema(const Json& given) const = 0;
  /// Defaults of the "train" section, given the canonical parameters and what of that section is given.
  virtual Json train_defaults(const Json& parameters, const Json& given) const = 0;
  /// Builds the model of one run: declares its layers and takes its data. `config`: {"task", "recipe", "train"}.
  virtual std::unique_ptr<Model> model(Builder& build, const Json& config, uint64_t seed) const = 0;
  /// Multiply-adds of one training step, all products of every layer.
  virtual double multiply_adds(const Json& config) const = 0;
  /// What of it has no kernels, so that it cannot train in the memory of a device (sim/train/device_training.h); empty:
  /// nothing.
  virtual std::string reason_against_device(const Json& config) const {
    return static_cast<void>(config), "task " + name();
  }
  /// Why these parameters cannot go together; empty when they can.
  virtual std::string invalid_reason(const Json& config) const { return static_cast<void>(config), std::string(); }
  /// Parameters that name data files: they count by content.
  virtual std::vector<std::string> file_parameters() const { return {}; }
  /// Examples of the validation set used by a curve point.
  virtual int curve_validation_examples() const { return curve_examples; }
};

/// The mean, over batches of at most `batch` of `count` examples, of loss(begin, n): each batch weighs n.
double mean_over_batches(Tape& tape, int count, int batch, const std::function<Var(int begin, int n)>& loss);

}  // namespace fp4::sim
