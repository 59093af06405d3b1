// The definition of truth for C = Q(A) Q(B)^T: one output at a time, by accumulate.h, then the finish. Sums run over K
// before block padding (Hadamard padding included), ascending k; padding adds nothing.
//   F = fl32(gA*gB);  prescaled: F = fl32(F * fl32(1/(pA*pB)));  folded Hadamard: F/h;  C = fl32(acc*F)
// Some libraries take the operands' amaxes for gA*gB (ProductFactor in tensor_scale.h).
// With outer128 the accumulator restarts every 128: total = fl32(total + fl32(acc * fl32(gA*gB))), then the rest of F.
#pragma once

#include "fp4/accumulate.h"
#include "fp4/tensor_scale.h"

namespace fp4 {

struct GemmFinish {
  float prescale_product = 1.0f;    // pA*pB: 1, 0.75 or 0.5625
  float hadamard_divisor = 1.0f;    // h of a folded Hadamard
  bool restarts_every_128 = false;  // outer128 on either operand

  FP4_HD constexpr float factor(float g_product) const {
    float f = g_product;
    if (prescale_product != 1.0f) f = f * (1.0f / prescale_product);
    return hadamard_divisor != 1.0f ? f / hadamard_divisor : f;
  }
};

template <class R>
FP4_HD bool has_nan_scale(const R& r, int64_t k_end) {
  const int64_t run = r.block() > 0 ? r.block() : larger<int64_t>(k_end, 1);
  for (int64_t k = 0; k < k_end; k += run) {
    if (is_nan(r.scale(k))) return true;
  }
  return false;
}

// One output; NaN where the row does not take the operands, which callers refuse. Readers as in accumulate.h, with
// tensor_scale(k) besides.
template <class A, class B>
FP4_HD float gemm_output(const Accumulator& row, const A& a, const B& b, int64_t k_end, const GemmFinish& finish) {
  const bool adds = takes(row, a.has_scale(), a.format()) && takes(row, b.has_scale(), b.format());
  if (!adds) return float_of(canonical_nan_bits);
  if (is_plain_fma(row, a.has_scale(), b.has_scale())) {
    const float acc = snapped(fma_dot(a, b, 0, k_end, 0.0f), row.snap_log2);
    return canonical(finish.hadamard_divisor != 1.0f ? acc * (1.0f / finish.hadamard_divisor) : acc);
  }
  if (has_nan_scale(a, k_end) || has_nan_scale(b, k_end)) return float_of(canonical_nan_bits);
  if (!finish.restarts_every_128) {
    return canonical(dot(row, a, b, 0, k_end) * finish.factor(a.tensor_scale(0) * b.tensor_scale(0)));
  }
  float total = 0.0f;
  for (int64_t k = 0; k < k_end; k += outer_scale_width) {
    const float acc = dot(row, a, b, k, smaller<int64_t>(k_end, k + outer_scale_width));
    total = total + acc * (a.tensor_scale(k) * b.tensor_scale(k));
  }
  return canonical(total * finish.factor(1.0f));
}

}  // namespace fp4
