// Decides: the operations of the models that are not quantised, forward beside backward (ops.cpp). Shapes in
// letters: N rows (examples or tokens), D columns, C classes, B sequences, T positions, H heads, W head width.
// Every function records itself; results of sums have the fixed order of train_kernels.h.
#pragma once

#include "sim/tape/autograd.h"

namespace fp4::sim {

Var add(Tape& tape, Var x, Var y);                                   // [N, D] + [N, D]
Var relu(Tape& tape, Var x);                                         // max(x, 0)
Var silu(Tape& tape, Var x);                                         // x * sigmoid(x)
Var swiglu(Tape& tape, Var gate, Var up);                            // silu(gate) * up
Var rms_norm(Tape& tape, Var x, Var gain);                           // [N, D], gain [1, D]; eps 1e-5
Var transposed(Tape& tape, Var x);                                   // [N, D] -> [D, N]
Var embedding(Tape& tape, const int32_t* tokens, int n, Var table);  // [N] -> [N, D], table [V, D]
/// [x, z_i . z_j for 0 <= j < i <= T] with z_0 = x [N, D] and z_1 .. z_T the D-wide parts of y [N, T*D]: the
/// interaction of DLRM (1906.00091). Result [N, D + T(T+1)/2].
Var interaction(Tape& tape, Var x, Var y);

/// cos and sin of position * 10000^(-2i/W), i < W/2: [T, W/2] each.
struct RopeTable {
  Tensor cosine, sine;
};
RopeTable rope_table(Arena& arena, const Kernels& k, int context, int width);
Var rope(Tape& tape, Var x, int heads, const RopeTable& table);  // x [B*T, H*W], T = table rows

/// softmax(q k^T / sqrt(W), causal) v per sequence and head; all [B*T, H*W].
Var causal_attention(Tape& tape, Var q, Var k, Var v, int heads, int context);

/// Mean over N of weight * (-ln softmax(logits)[label]); weights may be null (all 1). Result [1, 1].
Var cross_entropy(Tape& tape, Var logits, const int32_t* labels, const float* weights);
/// Mean over N of weight * mean over D of (y - target)^2; with `roots` [D] of root^2 * (y - target)^2, so that the
/// gradient of column c carries the factor root[c]^2 and the optimum stays where it is.
Var mean_squared_error(Tape& tape, Var y, Tensor target, const float* weights, const float* roots = nullptr);

/// C = A B in the fixed order `fma_sequential`, strides in elements; threads share the rows.
struct Matrix {
  const float* data;
  int64_t row, col;
};
void multiply(Tape& tape, float* c, int64_t c_row, Matrix a, Matrix b, int m, int n, int k);
/// The same with B packed before (Kernels::pack).
void multiply_packed(Tape& tape, float* c, int64_t c_row, Matrix a, const float* packed, int m, int n, int k);
float* pack(Tape& tape, Matrix b, int k, int n);

}  // namespace fp4::sim
