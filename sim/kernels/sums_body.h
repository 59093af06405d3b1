// Sums, maxima and tests over whole arrays, in the fixed order of kernels.h.
// Part of kernels_body.h, which says how it is included.

using lanes16 = float __attribute__((vector_size(64), aligned(4)));

static inline float tree(const lanes16& v) {
  float a[16];
  __builtin_memcpy(a, &v, sizeof a);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a[i] += a[i + half];
  return a[0];
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
  float partial[16];
  for (int l = 0; l < 16; ++l) partial[l] = x[0];
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) partial[l] = x[i + l] > partial[l] ? x[i + l] : partial[l];
  for (int l = 0; i + l < n; ++l) partial[l] = x[i + l] > partial[l] ? x[i + l] : partial[l];
  for (int half = 8; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) partial[l] = partial[l + half] > partial[l] ? partial[l + half] : partial[l];
  return partial[0];
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
