// Decides: Muon (Jordan 2024; torch.optim.Muon), the update of hidden matrices by an orthogonalised momentum.
//   m = mu m + (1 - mu) g;  u = (1 - mu) g + mu m                                     Nesterov
//   X = u / max(|u|, 1e-7), transposed where it has more rows than columns
//   five times: A = X X^T;  B = b A + c A A;  X = a X + B X          a, b, c = 3.4445, -4.7750, 2.0315
//   w = w - lr (.2 sqrt(max(rows, columns)) X + decay w)      2502.16982: with the RMS of AdamW's, so one lr suits both
// u, A, B and X are rounded to bf16 (nearest even) where they are stored; `products` is the format of both operands of
// the three products ("bf16": as stored; fp32: nothing is rounded; a preset such as mxfp8: a recipe for them). The
// other parameters (embeddings, heads, norms, biases) take AdamW's update.
#pragma once

#include <vector>

#include "sim/kernels/train_kernels.h"
#include "sim/rules/update_rules.h"
#include "src/backends/backends.h"

namespace fp4::sim {

/// X of `u` [rows, cols], in place.
void orthogonalise(const UpdateRules& rules, const Dispatcher& backend, const Kernels& k, float* u, int rows, int cols);

/// One update of w [rows, cols], its momentum m and its gradient g times `gradient_scale`. False: w is not finite.
bool muon_update(const UpdateRules& rules, const Dispatcher& backend, const Kernels& k, float* w, float* m,
                 const float* g, int rows, int cols, float lr, float weight_decay, float gradient_scale);

}  // namespace fp4::sim
