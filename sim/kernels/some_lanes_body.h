// The first n <= 16 floats of 16 lanes by way of memory: for instruction sets without masked loads and stores.
// Included like kernels_body.h, before it.

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
