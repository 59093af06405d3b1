// Sums, maxima and tests over whole arrays, in the fixed order of kernels.h.
// Part of kernels_body.h, which says how it is included.

using lanes16 = float __attribute__((vector_size(64), aligned(4)));
using lanes8 = float __attribute__((vector_size(32), aligned(4)));
using lanes4 = float __attribute__((vector_size(16), aligned(4)));

static inline __attribute__((always_inline)) float tree(const lanes16& v) {
  const lanes8 eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                       __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const lanes4 four =
      __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// The same tree of maxima; a NaN on the right is passed over.
static inline __attribute__((always_inline)) float tree_of_maxima(const lanes16& v) {
  const lanes8 low = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  const lanes8 high = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const lanes8 eight = high > low ? high : low;
  const lanes4 left = __builtin_shufflevector(eight, eight, 0, 1, 2, 3);
  const lanes4 right = __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  const lanes4 four = right > left ? right : left;
  const float a = four[2] > four[0] ? four[2] : four[0], b = four[3] > four[1] ? four[3] : four[1];
  return b > a ? b : a;
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
  return tree(v);
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
  return tree_of_maxima(partial);
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
