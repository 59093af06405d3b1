// The generic backend, for machines with neither AVX-512 nor AVX2.
#define FP4_CPU 128
#include "src/cpu/backend_body.h"
#include "src/cpu/vector_backends.h"

namespace fp4 {

const Backend& generic_backend() {
  static const generic::VectorBackend backend("generic", true);
  return backend;
}

}  // namespace fp4
