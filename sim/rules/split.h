// Decides: how a product C = A B^T is cut into parts that are quantised apart and added (SplitSpec of fp4/spec.h).
// One operand holds activations or their gradients: a of fprop (X) and of dgrad (dY), b of wgrad (X^T).
//   hot_channels   channels are columns of X and dY, so they lie along K in fprop and dgrad and are rows of b in wgrad.
//     Hot are those floor(share * channels + 1/2) with the largest magnitudes, of equals the first; one stays cold.
//     fprop, dgrad   C = Q(A_cold) Q(B_cold)^T + high(A_hot) high(B_hot)^T, columns gathered in ascending order
//     wgrad          columns of C: Q(A) Q(B_cold)^T and high(A) high(B_hot)^T; the channels of fprop, where that is
//                    split alike
//   clamp          of the n activations x, sorted, t = floor(share * n) at each end give way: x' = x between the
//     values at places t and n - 1 - t, r = x - x', at most 2 t of them not 0;   C = Q(x') Q(.)^T + high(r) high(.)^T
//   low_rank       A = U S V^T + R, so B (sim/engine/low_rank.h); with A^ = Q(U) S Q(V)^T, factors quantised along
//   their
//     columns as the operand is, products of factors in fp32, k ascending:
//     C = Q(R_A) Q(R_B)^T + A^ (Q(R_B) + B^)^T + Q(R_A) B^^T
// The Hadamard of dgrad or wgrad rotates the first part alone; fprop has none, low_rank neither. Parts are added in
// fp32, in this order. Not split: operands with infinities or NaN under clamp and low_rank, and a product with fewer
// than two channels.
#pragma once

#include "sim/tape/autograd.h"
#include "src/backends/backends.h"

namespace fp4::sim {

inline MatrixView view(Tensor t) { return view_of(t.data, t.rows, t.cols); }

/// C += the part, row by row.
inline void add_to(const Tape& tape, float* c, int64_t c_row, Tensor part) {
  for (int r = 0; r < part.rows; ++r) tape.k.add(c + r * c_row, part.row(r), part.cols);
}

/// Whether operand b is one part, so that its codes are those of the whole matrix.
inline bool keeps_b_whole(const SplitSpec& s) { return s.kind == Split::none || s.kind == Split::clamp; }

/// Numbers of channels, ascending, in a step's arena.
struct Channels {
  const int32_t* hot = nullptr;
  const int32_t* cold = nullptr;
  int hot_count = 0, cold_count = 0;
};
/// `x`: [samples, channels]; NaN counts as the largest magnitude.
Channels choose_channels(Arena& arena, MatrixView x, double share);

/// The columns that `index` names, one after another.
Tensor gathered_columns(Arena& arena, MatrixView x, const int32_t* index, int count);

struct Clamped {
  Tensor inside, beyond;  // both of x's shape
};
Clamped clamped(const Tape& tape, MatrixView x, double share);

}  // namespace fp4::sim
