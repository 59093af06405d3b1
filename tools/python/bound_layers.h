// Linear layers and attention products of somebody else's model under a recipe: sim/engine/quantized_linear.h on memory
// of the caller's, the host's or that of a lent device. A call keeps nothing for the next but what the engine holds of
// a layer's latest operands; calls of one set of layers run one at a time.
#pragma once

#include <mutex>

#include "sim/engine/quantized_linear.h"
#include "src/gpu/device.h"
#include "tools/python/gate.h"

namespace fp4::python {

/// One product of a layer or its backward; `parts` of equal sizes lie one behind the other. Row-major without gaps. The
/// order of fields is that of _torch_ops.py.
struct LinearCall {
  const gpu::Lender* lender;  // of the device where all pointers lie; null: the host
  uint64_t seed, pass;        // pass: in: that of a backward; out: the number of this forward
  uint32_t step;
  int32_t number, parts, rows, in, out, training, threads;
  int32_t bf16;                                 // bit i: the i-th of these eight is bf16; on a device, where parts is 1
  float *x, *w, *bias, *y, *dy, *dx, *dw, *db;  // forward fills y, backward what is not null of dx, dw, db
  uint8_t* kept;  // not null: what forward leaves for backward, which then has no x (Layers::kept_bytes)
};

class Layers : public Object, public std::enable_shared_from_this<Layers> {
 public:
  /// quantisable: an ordinary linear layer, which the recipe's choice of layers may leave out; product: attention's,
  /// whose two sides are both operands and whose sizes each call brings.
  struct Row {
    std::string name;
    int in, out;
    bool quantisable, product;
  };
  /// recipe: a name, NAME@GEMM, a .json file, or JSON text; steps: of the training, for recipes with phases, else 0.
  /// Error for what the recipe does not allow.
  Layers(const std::string& recipe, const std::vector<Row>& rows, const std::string& backend, int steps);

  /// Y [N, out] = X [N, in] W^T + bias of layer `number`, or its gradients.
  void run(LinearCall& call);
  /// What layer `number` keeps for its backward in X's place, where X is met nowhere else: {bytes, rows of a run, bytes
  /// of each begun run}; else null.
  Json kept_bytes(int number) const;
  /// Why a lent device cannot do it, and empty when it can.
  const std::string& against_device() const { return against_device_; }
  const sim::TrainingRecipe& recipe() const { return recipe_; }
  const sim::LinearEngine& engine() const { return engine_; }
  /// Held tensor amaxes, as a checkpoint has to keep them.
  std::vector<float> state();
  void restore(const std::vector<float>& state);

 private:
  void run(sim::Tape& tape, LinearCall& call, gpu::Device* device);

  sim::TrainingRecipe recipe_;
  std::vector<Row> rows_;
  int steps_;
  Dispatcher backend_;
  const sim::Kernels& kernels_;
  sim::LinearEngine engine_;
  std::mutex mutex_;
  std::string against_device_;
  sim::Arena arena_;
  uint64_t passes_ = 0;
  std::vector<uint64_t> latest_;  // whose operands the engine holds, per layer; 0: nobody's
};

}  // namespace fp4::python
