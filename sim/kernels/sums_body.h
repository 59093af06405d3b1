// Sums, maxima and tests over whole arrays, in the fixed order of train_kernels.h.
#pragma once

#include "sim/kernels/set.h"

namespace fp4::sim::FP4_ISA {

// A NaN on the right is passed over.
static constexpr auto larger_of = [](const auto& left, const auto& right) { return right > left ? right : left; };
static constexpr auto sum_of_two = [](const auto& left, const auto& right) { return left + right; };

// The lanes joined by halves: 8, 4, 2, 1.
template <class Join>
static inline __attribute__((always_inline)) float tree(const lanes16& v, Join join) {
  const lanes8 eight = join((lanes8)__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                            (lanes8)__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  const lanes4 four = join((lanes4)__builtin_shufflevector(eight, eight, 0, 1, 2, 3),
                           (lanes4)__builtin_shufflevector(eight, eight, 4, 5, 6, 7));
  const float even = join(four[0], four[2]), odd = join(four[1], four[3]);
  return join(even, odd);
}

// `tree` of sixteen rows at once, a result a lane: every step halves the lanes of two vectors into one.
template <class Join>
static inline __attribute__((always_inline)) lanes16 trees(const lanes16 (&v)[16], Join join) {
  lanes16 eight[8], four[4], two[2];
  for (int i = 0; i < 8; ++i) {
    eight[i] =
        join(__builtin_shufflevector(v[i], v[i + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
             __builtin_shufflevector(v[i], v[i + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31));
  }
  for (int i = 0; i < 4; ++i) {
    const lanes16 &a = eight[i], &b = eight[i + 4];
    four[i] = join(__builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
                   __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31));
  }
  for (int i = 0; i < 2; ++i) {
    const lanes16 &a = four[i], &b = four[i + 2];
    two[i] = join(__builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
                  __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31));
  }
  const lanes16 &a = two[0], &b = two[1];
  return join(__builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),
              __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31));
}

// Sum of term(i), i < n, in the fixed 16-lane order.
template <class Term>
static inline __attribute__((always_inline)) float lane_sum(int64_t n, Term term) {
  float partial[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) partial[l] += term(i + l);
  for (int l = 0; i + l < n; ++l) partial[l] += term(i + l);
  lanes16 v;
  __builtin_memcpy(&v, partial, sizeof v);
  return tree(v, sum_of_two);
}

// Largest x[i], n >= 1; NaN is passed over (it shows up in what is computed from it).
static inline __attribute__((always_inline)) float lane_max(const float* x, int64_t n) {
  lanes16 partial = x[0] - lanes16{};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    lanes16 v;
    __builtin_memcpy(&v, x + i, sizeof v);
    partial = v > partial ? v : partial;
  }
  if (i < n) {
    const lanes16 v = load_some(x + i, static_cast<int>(n - i), x[0]);
    partial = v > partial ? v : partial;
  }
  return tree(partial, larger_of);
}

static float sum(const float* x, int64_t n) {
  return lane_sum(n, [=](int64_t i) { return x[i]; });
}
static float dot(const float* x, const float* y, int64_t n) {
  return lane_sum(n, [=](int64_t i) { return x[i] * y[i]; });
}
static bool all_finite(const float* x, int64_t n) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= static_cast<uint32_t>(magnitude_bits(x[i]) >= float_infinity_bits);
  return bad == 0;
}

}  // namespace fp4::sim::FP4_ISA
