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
#include <memory>
#include <string>
#include <vector>

#include "sim/engine/calibration.h"
#include "sim/engine/gradient_noise.h"
#include "sim/engine/trace.h"
#include "sim/engine/watched_weights.h"
#include "sim/rules/schedule.h"
#include "sim/rules/split.h"
#include "sim/tape/autograd.h"
#include "src/backends/backends.h"
#include "src/gpu/gpu_backend.h"

namespace fp4::sim {

enum class Gemm : uint8_t { fprop, dgrad, wgrad };
inline constexpr const char* gemm_names[] = {"fprop", "dgrad", "wgrad"};

class LinearEngine {
 public:
  LinearEngine(const Recipe& recipe, const Dispatcher& backend);

  /// Layers are numbered in this order, unquantised ones included.
  int add_layer(const std::string& name, int in, int out, bool quantisable);
  /// A product that only a rule quantises and that runs plainly elsewhere: attention's and an embedding's. Numbered
  /// like a layer, so add it after all linear ones; `multiply_adds` as in LayerInfo.
  int add_product(const std::string& name, int in, int out, double multiply_adds);
  /// Whether the layer follows the recipe; after finish().
  bool is_quantised(int layer) const { return layers_[static_cast<size_t>(layer)].treatment == Treatment::quantised; }
  /// Applies the recipe's layer policy once all layers are known; throws for a name that no layer has.
  void finish();
  /// Before a training step: the phase of the recipe that it belongs to. Every tenth step from 1 on measures the noise
  /// of the weight gradients (gradient_noise.h), where the next phase has a condition.
  void begin_step(int step, int steps);

  /// The first phase that a condition has begun, 0: none; a checkpoint keeps it.
  int turned() const { return turned_; }
  void restore_turned(int phase) { turned_ = phase; }
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
  Var forward(Tape& tape, int layer, Var x, Var w, Var bias, bool relu = false, int part = 0) {
    return forward(tape, layer, x, w, bias, relu, part, {});
  }
  /// For callers whose tape does not live from a forward to its backward.
  struct Apart {
    float* y = nullptr;             // where Y is to lie, whose backward comes with another tape
    bool only_backward = false;     // Y is not wanted: record what backward needs of a forward that was
    bool is_latest = false;         // this layer's latest operands are those of that forward
    Quantized* of_wgrad = nullptr;  // Wgrad's operand b: a forward makes it, and only_backward takes it in X's place
  };
  Var forward(Tape& tape, int layer, Var x, Var w, Var bias, bool relu, int part, Apart apart);

  const Dispatcher& backend() const { return backend_; }
  /// After finish(): from here on operands and results lie where the tape's floats do, and this backend alone quantises
  /// and multiplies them (sim/train/device_training.h); null: on the host again.
  void use(const gpu::ResidentBackend* resident);
  /// Wgrad of a layer whose backward meets X nowhere but in its operand b, codes of at most 8 bits, the same in any
  /// step; null of others. After finish().
  const GemmSpec* keeps_for_wgrad(int layer) const;
  /// Why a device cannot do these products on its own, in any phase; empty when it can. After finish().
  std::string reason_against_device();

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
  std::array<PrecisionCounts, 3> products() const;
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
  enum class Treatment : uint8_t { plain, skipped, quantised };
  struct ProductCall;
  using Way = void (LinearEngine::*)(const ProductCall&);
  struct Product {
    GemmSpec spec;
    bool is_plain = false;  // fp32 operands as they are
    // How it is computed, in a training step and where a trained network is judged; chosen by plan().
    Way trained = &LinearEngine::plain_product, judged = &LinearEngine::plain_product;
    int64_t count = 0;  // in training steps
  };
  struct Layer {
    std::string name;
    int in, out;
    bool quantisable;
    double multiply_adds;
    bool is_product = false;  // added by add_product
    int position = -1;        // among the quantisable ones
    Treatment treatment = Treatment::plain;
    Sparsity sparse = Sparsity::none;
    std::array<Product, 3> products;
    std::array<std::array<float, 2>, 3> held_amax = {{{-1, -1}, {-1, -1}, {-1, -1}}};
    struct Operands {
      Quantized x, w, w_transposed;  // fprop's, for backward; storage is kept between steps
    };
    std::vector<std::unique_ptr<Operands>> parts;
    WatchedWeights weights;  // of a linear layer
    Operands& at(int part);
    Quantized scratch;  // an operand whose amax is being sampled, or traced
    Quantized scratch_b;
    std::unique_ptr<InputStatistics> inputs;        // while calibrating
    std::unique_ptr<CalibratedWeights> calibrated;  // afterwards
  };
  // Layer numbers of a step's parts do not meet below 1024 layers and 32768 parts.
  static constexpr int part_stride = 1024, most_parts = 32768;
  struct Kept;   // a forward operand that backward needs
  struct Saved;  // what fprop leaves for backward
  // Weights with zeros for what `sparse` leaves out; without it the weights themselves and no columns.
  struct Masked {
    Tensor values;
    std::vector<int32_t> kept;  // columns, row by row, those of row r before ends[r]
    std::vector<int64_t> ends;
  };

  static const GemmSpec& spec(const Layer& layer, Gemm gemm) { return layer.products[static_cast<size_t>(gemm)].spec; }
  // The part of a layer that is being multiplied.
  struct Part {
    int number;  // of the layer
    int index;
  };
  static RandomPlace random_place(const Pass& pass, Part part, Gemm gemm, int operand, Purpose purpose) {
    return {pass.seed,
            stream_number(static_cast<uint32_t>(part.number + part_stride * part.index), static_cast<uint32_t>(gemm),
                          static_cast<uint32_t>(operand), purpose),
            pass.step};
  }
  QuantizeCall call_of(Tape& tape, const Layer& layer, Part part, Gemm gemm, int operand, MatrixView x) const;
  // Whether `calls` has forward products apart where a network is judged, and what a log notes (called_product.cpp).
  bool calls_apart(const Layer& layer) const { return recipe_.calls.any() && !layer.is_product; }
  int rows_of_call(const Tape& tape, const Layer& layer, int rows) const;
  Tensor as_multiplied(Tape& tape, Layer& layer, Part part, int operand, Tensor x);
  void note(Tape& tape, Layer& layer, Part part, Tensor x, Tensor w, Tensor y);
  // Those of a layer that follows the recipe; none of others.
  const WeightRules& weight_rules(const Layer& layer) const;
  std::vector<float> quantised_weights(const Pass& pass, const Layer& layer, int number) const;
  // What `sparse` of a layer excludes, as an Error; after the products of the layer are known.
  void check_sparsity(const Layer& layer) const;
  Masked masked(Arena& arena, const Layer& layer, Tensor w) const;
  LayerPlace place_of(const Layer& layer) const;
  bool has_attention() const;
  void plan(int phase);
  void choose_ways(Layer& layer) const;
  bool samples_amax(const Tape& tape, const QuantSpec& q) const;
  void quantize(Tape& tape, Layer& layer, Gemm gemm, int operand, const QuantizeCall& call, Quantized& out);
  Kept keep(Tape& tape, Layer& layer, Part part, int operand, Tensor x, bool decodes, bool is_there);
  // What a split product is given and gives besides C (split.h).
  struct SplitUse {
    Channels channels;                        // given, or chosen
    Tensor* decoded[2] = {nullptr, nullptr};  // a and b as they were multiplied, where asked for
  };
  // C [a.rows, b.rows] = Q(A) Q(B)^T, rows `c_row` apart.
  struct ProductCall {
    Tape& tape;
    Layer& layer;
    Part part;
    Gemm gemm;
    MatrixView a, b;
    float* c;
    int64_t c_row;
    const Quantized *ready_a = nullptr, *ready_b = nullptr;  // in place of the quantisation of A and B
    SplitUse* split = nullptr;
    const Masked* sparse = nullptr;  // of B, where zeros in place of what is left out would not do
    const float* bias = nullptr;     // that a device adds on the way
  };
  class SplitRun;
  // An operand to be quantised, and where its product is told.
  struct Lacking {
    QuantizeCall call;
    const Quantized** ready;
  };
  void add_lacking(ProductCall& p, std::vector<Lacking>& all) const;
  std::vector<Quantized> quantize_together(const std::vector<Lacking>& all) const;
  Way way_of(const Pass& pass, const Product& planned) const;
  void product(const ProductCall& p);
  // The ways of a product: fp32 operands as they are; both operands whole; cut into parts (split_product.cpp); with
  // weights that are left out (sparse_product.cpp); as `calls` have it (called_product.cpp).
  void plain_product(const ProductCall& p);
  void whole_product(const ProductCall& p);
  void split_product(const ProductCall& p);
  void sparse_product(const ProductCall& p);
  void called_product(const ProductCall& p);
  // What forward quantises before its product, for backward's use of the operands.
  void keep_operands(const ProductCall& p, Saved& saved, const Apart& apart);
  void count_inputs(Layer& layer, Tensor x) const;
  bool needs_columns(const Layer& layer, Tensor x, const Masked& w) const;
  // For a trace, of the first part of a layer's products alone; after product().
  void trace(const ProductCall& p) const;
  void backward(Tape& tape, Part part, const Saved& saved);

  Recipe recipe_;
  int phase_ = -1;
  int turned_ = 0;
  bool calibrates_ = false;
  GradientNoise noise_;                     // of this step
  int quantisable_ = 0;                     // layers
  std::array<PrecisionCounts, 3> earlier_;  // products of earlier phases
  Recipe skipped_;                          // every product bf16: layers that the policy leaves out
  const Dispatcher& backend_;
  const gpu::ResidentBackend* resident_ = nullptr;
  std::vector<Layer> layers_;
};

}  // namespace fp4::sim
