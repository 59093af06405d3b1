// The avx512 backend.
#define FP4_CPU 512
#include "src/cpu/vector_backends.h"

#if defined(__x86_64__)
#include "src/cpu/backend_body.h"

namespace fp4 {

const Backend& avx512_backend() {
  static const avx512::VectorBackend backend(
      "avx512", __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
                    __builtin_cpu_supports("bmi2"));
  return backend;
}

}  // namespace fp4

#endif
