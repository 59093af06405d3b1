// Decides: the quantised linear layer, the one place where a recipe meets autograd.
//   fprop  Y  [N, out] = Qx(X) Qw(W)^T            contraction over in
//   dgrad  dX [N, in]  = Qg(dY) Qw(W^T)^T         contraction over out
//   wgrad  dW [out, in] = Qg(dY^T) Qx(X^T)^T      contraction over N
// Each operand is quantised along the contraction axis of the product that eats it. Estimators of fprop's a and b
// multiply dX and dW at fprop's payload; backward quantisers and Hadamards are straight-through, and so is the mask of
// a recipe's `sparse`, under which fprop and dgrad meet W with zeros for what it leaves out (sparse_product.cpp).
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "sim/engine/phases.h"
#include "sim/engine/saved_operands.h"

namespace fp4::sim {

/// For callers whose tape does not live from a forward to its backward.
struct ForwardApart {
  float* y = nullptr;             // where Y is to lie, whose backward comes with another tape
  bool only_backward = false;     // Y is not wanted: record what backward needs of a forward that was
  bool is_latest = false;         // this layer's latest operands are those of that forward
  Quantized* of_wgrad = nullptr;  // Wgrad's operand b: a forward makes it, and only_backward takes it in X's place
};

class LinearEngine {
 public:
  LinearEngine(const TrainingRecipe& recipe, const Dispatcher& backend);
  LinearEngine(LinearEngine&&) = delete;

  /// Layers are numbered in this order, unquantised ones included.
  int add_layer(const std::string& name, int in, int out, bool quantisable) {
    return add(name, in, out, quantisable, static_cast<double>(in) * out, false);
  }
  /// A product that only a rule quantises and that runs plainly elsewhere: attention's and an embedding's. Numbered
  /// like a layer, so add it after all linear ones; `multiply_adds` as in LayerInfo.
  int add_product(const std::string& name, int in, int out, double multiply_adds) {
    return add(name, in, out, false, multiply_adds, true);
  }
  /// Whether the layer follows the recipe; after finish().
  bool is_quantised(int layer) const { return layers_[static_cast<size_t>(layer)].is_quantised(); }
  /// Applies the recipe's layer policy once all layers are known; throws for a name that no layer has.
  void finish() { phases_.finish(backend_.host); }
  /// Before a training step: the phase of the recipe that it belongs to. Every tenth step from 1 on measures the noise
  /// of the weight gradients (gradient_noise.h), where the next phase has a condition.
  void begin_step(int step, int steps) { phases_.begin_step(step, steps); }

  /// The first phase that a condition has begun, 0: none; a checkpoint keeps it.
  int turned() const { return phases_.turned; }
  void restore_turned(int phase) { phases_.turned = phase; }
  /// After the optimizer's part of a training step: conditions of phases; averages and resets of the recipe's weight
  /// rules. With `watch`, every step counts for the oscillation since the last one that was traced; `trace` (may be
  /// null) receives it as `oscillation` (sum of d_Q over sum of d_w) and `oscillating_share` (of weights with d_Q >= 4
  /// d_w).
  void end_step(const Pass& pass, bool watch, const std::function<void(const TraceRow&)>* trace);
  /// The weights that this step's optimizer updates by a rule of their own. At the start of a window of a ramp all of
  /// them are due, with the gradients they have waited for.
  std::vector<SlowWeights> slow_weights(int step);

  /// Y = X W^T + bias (bias may be null), with `relu` max(Y, 0) of it (then with a bias), recorded on the tape. `part`
  /// numbers the products of one layer in a step (the heads of all sequences, below 32768): each has its own tensor
  /// scales, and random bits of the stream of layer number + 1024 * part. Counts and traces are those of part 0.
  Var forward(Tape& tape, int layer, Var x, Var w, Var bias, bool relu = false, int part = 0,
              const ForwardApart& apart = {});

  const Dispatcher& backend() const { return backend_.host; }
  /// After finish(): from here on operands and results lie where the tape's floats do, and this backend alone quantises
  /// and multiplies them (sim/train/device_training.h); null: on the host again.
  void use(const gpu::ResidentBackend* resident);
  /// Wgrad of a layer whose backward meets X nowhere but in its operand b, codes of at most 8 bits, the same in any
  /// step; null of others. After finish().
  const GemmSpec* keeps_for_wgrad(int layer) const;
  /// Why a device cannot do these products on its own, in any phase; empty when it can. After finish().
  std::string reason_against_device() { return phases_.reason_against_device(); }

  /// Operand b of a product's forward as it is multiplied, decoded: x [rows, cols] of `part`. Empty where it is not
  /// quantised, rotated or split.
  Tensor multiplied_b(Tape& tape, int product, Tensor x, int part);

  bool centers_keys() const { return recipe_.center_keys; }
  const AttentionRules& attention() const { return recipe_.attention; }
  /// x [rows, cols] as the recipe's cache holds it, in place; blocks along the columns, or the rows with `by_column`.
  /// `product` (qk for K, pv for V) and `part` place its random bits. Unchanged where nothing is quantised; while
  /// calibrating, its largest magnitude counts.
  void store_in_cache(Tape& tape, int product, Tensor x, bool by_column, int part);

  /// A step in which a layer has no rows.
  void rest(int layer, Var w) { layers_[static_cast<size_t>(layer)].weights.weight = w->value; }

  /// How many products of each GEMM ran in which precision; training steps only.
  std::array<PrecisionCounts, 3> products() const { return phases_.products(); }
  std::vector<LayerInfo> layers() const;

  /// From here on forward passes count for the calibration of the recipe's `ptq` (sim/rules/post_training.h): every
  /// quantised linear layer adds up X^T X of its inputs and keeps their largest magnitudes.
  void begin_calibration() { calibrates_ = true; }
  /// Ends it: the layers' weights become codes, which evaluations use from here on.
  void finish_calibration(Tape& tape);

  /// Held tensor amaxes, in layer, GEMM, operand order: what a checkpoint must keep.
  std::vector<float> state() const;
  void restore(const std::vector<float>& state);
  /// Averages and open windows of the weight rules after a step, layer by layer; none without rules.
  std::vector<float> weight_state() const;
  void restore_weights(const std::vector<float>& state, int step);

 private:
  int add(const std::string& name, int in, int out, bool quantisable, double multiply_adds, bool is_product);
  void product(const ProductCall& p);
  void backward(Tape& tape, Layer& layer, int part, const SavedForward& saved);
  void gradient(ProductCall& p, int operand, const SavedForward& saved, bool is_rotated);

  const TrainingRecipe recipe_;
  EngineBackend backend_;
  std::vector<Layer> layers_;
  Phases phases_;
  bool calibrates_ = false;
};

}  // namespace fp4::sim
