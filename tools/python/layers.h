// Linear layers of somebody else's model under a recipe: sim/quantized_linear.h with a tape for each call, whose memory
// is what Python gets. Forward and backward of one set of layers run one at a time; each releases Python's lock.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/quantized_linear.h"
#include "tools/python/arrays.h"

namespace fp4::python {

class LayerCall;

class Layers : public std::enable_shared_from_this<Layers> {
 public:
  struct Shape {
    std::string name;
    int in, out;
    bool quantisable;
  };
  /// recipe: a name, NAME@GEMM, a .json file, or JSON text; steps: of the training, for recipes with phases, else 0.
  /// Error for what the recipe does not allow.
  Layers(const std::string& recipe, const std::vector<Shape>& shapes, uint64_t seed, const std::string& backend,
         int steps);

  /// Y [N, out] = X [N, in] W^T + bias of layer `number`; bias may be None. Without `training` nothing is kept.
  std::shared_ptr<LayerCall> forward(int number, const py::object& x, const py::object& w, const py::object& bias,
                                     uint32_t step, bool training, bool needs_input_gradient, int threads);
  std::vector<std::string> quantised() const { return engine_.quantised_layers(); }
  /// Held tensor amaxes, as a checkpoint has to keep them.
  std::vector<float> state();
  void restore(const std::vector<float>& state);
  /// What makes equal layers again, state included.
  py::tuple pickled();
  static std::shared_ptr<Layers> unpickled(const py::tuple& t);

 private:
  friend class LayerCall;
  void begin(uint32_t step) {
    if (steps_ > 0) engine_.begin_step(static_cast<int>(step), steps_);
  }
  sim::Arena take_arena();
  void give_back(sim::Arena arena);

  sim::Recipe recipe_;
  std::vector<Shape> shapes_;
  uint64_t seed_;
  std::string backend_word_;
  int steps_;
  Dispatcher backend_;
  const sim::Kernels& kernels_;
  sim::LinearEngine engine_;
  std::mutex mutex_;
  std::vector<const LayerCall*> latest_;  // whose operands the engine holds, per layer
  std::vector<sim::Arena> free_;
};

/// One forward pass of one layer, and what its backward needs.
class LayerCall : public std::enable_shared_from_this<LayerCall> {
 public:
  LayerCall(std::shared_ptr<Layers> layers, int number, Operand x, Operand w, Operand bias, const sim::Pass& pass,
            bool needs_input_gradient);
  ~LayerCall();
  LayerCall(const LayerCall&) = delete;
  LayerCall& operator=(const LayerCall&) = delete;

  /// y, and (dx, dw, dbias) from dy [N, out]; None for what nobody asked for. Views of this call's memory.
  py::array value();
  py::tuple backward(const py::object& dy);

 private:
  void run();
  py::object view(const sim::Var& variable, const float* data);

  std::shared_ptr<Layers> layers_;
  int number_;
  Operand x_, w_, bias_;
  bool needs_input_gradient_;
  sim::Arena arena_;
  sim::Pass pass_;
  sim::Tape tape_;
  sim::Var vx_ = nullptr, vw_ = nullptr, vb_ = nullptr, vy_ = nullptr;
};

}  // namespace fp4::python
