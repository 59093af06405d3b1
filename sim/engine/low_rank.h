// Decides: the low-rank part of a matrix X [rows, cols] by a randomised SVD: X = U S V^T + rest.
//   rank r = floor(share * min(rows, cols) + 1/2), at least 1; width l = min(r + 4, rows, cols)
//   O [cols, l] normal draws;  Y = orth(X O), Z = orth(X^T Y), Y = orth(X Z)     (Halko et al. 2011, one iteration)
//   B = Y^T X, B B^T = W D W^T by Jacobi rotations;  S = sqrt(D), U = Y W, V = B^T W / S, the r largest
// In fp64: sums in ascending order, +, *, / and sqrt alone, rounded to fp32 at the end, so that every machine gives the
// same bits. A matrix library does not: it chooses vector widths, fused operations and, by the sizes of the caches, the
// blocks in which it adds. The rest is X - U S V^T of the rounded factors, j ascending in fp64, rounded once.
#pragma once

#include "fp4/rng.h"
#include "sim/tape/autograd.h"
#include "src/backends/backends.h"

namespace fp4::sim {

struct LowRank {
  Tensor left, values, right;  // U^T [r, rows], S [1, r], V^T [r, cols]; zeros for X with infinities or NaN
  Tensor rest;                 // [rows, cols]
};

/// `draws`: the stream of O, element (c, j) being number c * l + j.
LowRank low_rank(Tape& tape, MatrixView x, double share, RandomPlace draws);

}  // namespace fp4::sim
