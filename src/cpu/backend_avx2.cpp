// The avx2 backend. Every CPU with AVX2 has F16C.
#define FP4_CPU 256
#include "src/cpu/vector_backends.h"

#if defined(__x86_64__)
#include "src/cpu/backend_body.h"

namespace fp4 {

const Backend& avx2_backend() {
  static const avx2::VectorBackend backend("avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  return backend;
}

}  // namespace fp4

#endif
