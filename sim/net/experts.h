// Decides: a mixture of experts in the place of a feed-forward block, without a capacity: every token reaches all the
// experts that it chose.
//   logits = x R^T in fp32 (layer `router`, which no recipe quantises), p = softmax(logits), chosen are the `top`
//   largest p, of equals the first;  w_i = p_i for top 1, p_i / (p_i + p_j) for top 2
//   y = sum over chosen i, ascending, of w_i * down_i(silu(gate_i(x)) * up_i(x))
// Each expert is three linear layers of its own (`expert0.gate`) over the tokens that chose it, in their order: one
// product for each, with its own scales; wgrad's K is that number of tokens. Without tokens it has no product and no
// gradient. Balance (Switch Transformers 2101.03961): the router also receives the gradient of balance * e * sum_i f_i
// mean(p_i), f_i the share of choices that fell on i, held constant; the loss that is reported is without it.
#pragma once

#include <string>
#include <vector>

#include "sim/net/layers.h"

namespace fp4::sim {

class Experts {
 public:
  struct Shape {
    int width, ffn, experts, top;  // top: 1 or 2
    float gain;                    // of `down`
    float balance;
  };
  Experts(Builder& build, const std::string& block, Shape shape);
  Var operator()(Tape& tape, Var x) const;
  /// The layers that read the block's input: router, gates and ups.
  std::vector<const Linear*> readers() const;

 private:
  Shape shape_;
  Linear router_;
  std::vector<SwiGlu> experts_;
};

}  // namespace fp4::sim
