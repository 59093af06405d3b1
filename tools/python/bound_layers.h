// Linear layers and attention products of somebody else's model under a recipe: sim/engine/quantized_linear.h with a
// tape for each call, whose memory is what Python gets. Forward and backward of one set of layers run one at a time.
#pragma once

#include <mutex>

#include "sim/engine/quantized_linear.h"
#include "tools/python/arrays.h"

namespace fp4::python {

class LayerCall;

class Layers : public Object, public std::enable_shared_from_this<Layers> {
 public:
  /// quantisable: an ordinary linear layer, which the recipe's choice of layers may leave out; product: attention's,
  /// whose two sides are both operands and whose sizes each call brings.
  struct Row {
    std::string name;
    int in, out;
    bool quantisable, product;
  };
  /// What one call says besides its operands; `parts` products of equal sizes lie one behind the other in them.
  struct How {
    sim::Pass pass;
    bool records = false;  // its backward will be asked for
    bool needs_input = false;
    int parts = 1;
  };
  /// recipe: a name, NAME@GEMM, a .json file, or JSON text; steps: of the training, for recipes with phases, else 0.
  /// Error for what the recipe does not allow.
  Layers(const std::string& recipe, const std::vector<Row>& rows, const std::string& backend, int steps);

  /// Y [N, out] = X [N, in] W^T + bias of layer `number`; a bias without data is none.
  std::shared_ptr<LayerCall> forward(int number, const Operand& x, const Operand& w, const Operand& bias,
                                     const How& how);
  const sim::Recipe& recipe() const { return recipe_; }
  const sim::LinearEngine& engine() const { return engine_; }
  /// Held tensor amaxes, as a checkpoint has to keep them.
  std::vector<float> state();
  void restore(const std::vector<float>& state);

 private:
  friend class LayerCall;
  void begin(uint32_t step) {
    if (steps_ > 0) engine_.begin_step(static_cast<int>(step), steps_);
  }
  sim::Arena take_arena();
  void give_back(sim::Arena arena);

  sim::Recipe recipe_;
  std::vector<Row> rows_;
  int steps_;
  Dispatcher backend_;
  const sim::Kernels& kernels_;
  sim::LinearEngine engine_;
  std::mutex mutex_;
  std::vector<const LayerCall*> latest_;  // whose operands the engine holds, per layer
  std::vector<sim::Arena> free_;
};

/// One forward pass of one layer, and what its backward needs; Python keeps the operands.
class LayerCall : public Object, public std::enable_shared_from_this<LayerCall> {
 public:
  LayerCall(std::shared_ptr<Layers> layers, int number, const Operand& x, const Operand& w, const Operand& bias,
            const Layers::How& how);
  ~LayerCall() override;
  LayerCall(const LayerCall&) = delete;
  LayerCall& operator=(const LayerCall&) = delete;

  /// y, and {x, weight, bias} from dy [N, out]; null for what nobody asked for. Views of this call's memory.
  Json value();
  Json backward(const Operand& dy);

 private:
  struct Part {
    sim::Var x, w, bias, y;
  };
  void run();
  /// Of all parts, one behind the other; `gathered` keeps them where there are several.
  Json joined(sim::Var Part::*variable, bool gradient, std::vector<float>& gathered);

  std::shared_ptr<Layers> layers_;
  int number_;
  Operand x_, w_, bias_;
  Layers::How how_;
  sim::Arena arena_;
  sim::Tape tape_;
  std::vector<Part> parts_;
  std::vector<float> y_, dx_, dw_, dbias_;
};

}  // namespace fp4::python
