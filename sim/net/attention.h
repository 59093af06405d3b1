// Decides: causal attention whose two products a rule may quantise, as layers `qk` and `pv` of the block. Each head of
// each sequence is a pair of products of its own (T positions, W the head's width), with backward ones as a linear
// layer has them (quantized_linear.h):
//   qk  S [T, T] = Q K^T   X = Q [T, W], weight K [T, W]:   dQ = dS K by dgrad, dK = dS^T Q by wgrad
//   pv  Y [T, W] = P V     X = P [T, T], weight V^T [W, T]: dP = dY V^T by dgrad, dV = P^T dY by wgrad
// `attn` of a recipe stores K and V in a format before the products read them, says what of the softmax the second one
// quantises, and what the backward pass takes for P and for the row term of the softmax's gradient (attention_rules.h).
// dV takes that P, too, unless its `source` is fprop_quantised, the P that the forward pass multiplied. With
// `center_keys` of a recipe K is, where qk is quantised, K minus its mean over the T positions: that takes the same
// from every score of a row. Masked positions are zeros of P and dS and are quantised and multiplied like the others.
#pragma once

#include <string>

#include "sim/net/layers.h"

namespace fp4::sim {

class Attention {
 public:
  /// `name` is the block's ("block0"), width that of all heads. To be made after all linear layers of the model, whose
  /// numbers and random bits do not depend on whether a model has attention.
  Attention(Builder& build, const std::string& name, int width, int heads, int context);
  /// softmax(q k^T / sqrt(W), causal) v; all [B*T, H*W]. Without rules and `attn`, causal_attention (ops.h).
  Var operator()(Tape& tape, Var q, Var k, Var v) const;

 private:
  LinearEngine* engine_;
  int heads_, context_;
  int qk_, pv_;
};

}  // namespace fp4::sim
