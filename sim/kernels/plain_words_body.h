// What has instructions, or quick ways, in AVX-512 alone: x^y of n floats; the first n <= 16 floats of 16 lanes (the
// others filled on loading); products of 32 x 32 bits.
// Part of kernels_body.h, which says how it is included.

static void powers(float* out, const float* x, float y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = elementary::pow(x[i], y);
}

typedef float some_lanes __attribute__((vector_size(64), aligned(4)));
static inline some_lanes load_some(const float* x, int n, float fill) {
  float v[16];
  for (int l = 0; l < 16; ++l) v[l] = l < n ? x[l] : fill;
  some_lanes lanes;
  __builtin_memcpy(&lanes, v, sizeof v);
  return lanes;
}
static inline void store_some(float* x, int n, const some_lanes& v) {
  for (int l = 0; l < n; ++l) x[l] = v[l];
}

using words16 = uint32_t __attribute__((vector_size(64)));
static inline void widening_product(const words16& a, uint32_t m, words16& low, words16& high) {
  for (int l = 0; l < 16; ++l) {
    const uint64_t p = uint64_t{a[l]} * m;
    low[l] = static_cast<uint32_t>(p), high[l] = static_cast<uint32_t>(p >> 32);
  }
}
