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

// Whether a scale, or an element under scales, of [begin, end) is infinite or NaN. What is quantised here has NaN
// scales at most; codes of others may hold anything.
template <class R>
FP4_HD bool has_special(const R& r, int64_t begin, int64_t end) {
  if (!r.has_scale()) return false;
  const int64_t run = r.block() > 0 ? r.block() : larger<int64_t>(end - begin, 1);
  for (int64_t k = begin; k < end; k += run) {
    if (!is_finite(r.scale(k))) return true;
  }
  if (!r.format().is_grid() && r.format().largest_code == r.format().magnitude_mask()) return false;
  for (int64_t k = begin; k < end; ++k) {
    if (!is_finite(r.unscaled(k))) return true;
  }
  return false;
}

// A factor of a product: infinite or NaN as element_value() decodes it, else its sign.
template <class R>
FP4_HD float sign_or_special(const R& r, int64_t k) {
  const float e = r.unscaled(k), s = r.scale(k);
  if (is_nan(s) || !is_finite(e)) return is_nan(s) ? s : e;
  if (e == 0.0f || s == 0.0f) return 0.0f;
  return is_finite(s) ? (is_negative(e) ? -1.0f : 1.0f) : e * s;
}

// What infinities and NaN make of a sum under scales; 0 where there are none. What is finite beside them does not
// count.
template <class A, class B>
FP4_HD float special_sum(const A& a, const B& b, int64_t begin, int64_t end, float start) {
  float sum = is_finite(start) ? 0.0f : start;
  for (int64_t k = begin; k < end; ++k) {
    const float x = sign_or_special(a, k), y = sign_or_special(b, k);
    if (!is_finite(x) || !is_finite(y)) sum = sum + x * y;
  }
  return sum;
}

// dot() of any codes and scales. Kinds that add decoded values see infinities and NaN themselves.
template <class A, class B>
FP4_HD float dot_of_any(const Accumulator& row, const A& a, const B& b, int64_t begin, int64_t end,
                        float start = 0.0f) {
  const bool decodes = row.kind == AccumulatorKind::sequential || row.kind == AccumulatorKind::sequential_double ||
                       row.kind == AccumulatorKind::fma;
  const bool looks = !decodes && (has_special(a, begin, end) || has_special(b, begin, end));
  const float special = looks ? special_sum(a, b, begin, end, start) : 0.0f;
  return special != 0.0f ? special : dot(row, a, b, begin, end, start);
}

// One output; NaN where the row does not take the operands, which callers refuse. Readers as in accumulate.h, with
// tensor_scale(k) and unscaled(k), the element without its scale, besides.
template <class A, class B>
FP4_HD float gemm_output(const Accumulator& row, const A& a, const B& b, int64_t k_end, const GemmFinish& finish) {
  const bool adds = takes(row, a.has_scale(), a.format()) && takes(row, b.has_scale(), b.format());
  if (!adds) return float_of(canonical_nan_bits);
  if (is_plain_fma(row, a.has_scale(), b.has_scale())) {
    const float acc = snapped(fma_dot(a, b, 0, k_end, 0.0f), row.snap_log2);
    return canonical(finish.hadamard_divisor != 1.0f ? acc * (1.0f / finish.hadamard_divisor) : acc);
  }
  if (!finish.restarts_every_128)
    return canonical(dot_of_any(row, a, b, 0, k_end) * finish.factor(a.tensor_scale(0) * b.tensor_scale(0)));
  float total = 0.0f;
  for (int64_t k = 0; k < k_end; k += outer_scale_width) {
    const float acc = dot_of_any(row, a, b, k, smaller<int64_t>(k_end, k + outer_scale_width));
    total = total + acc * (a.tensor_scale(k) * b.tensor_scale(k));
  }
  return canonical(total * finish.factor(1.0f));
}

}  // namespace fp4
