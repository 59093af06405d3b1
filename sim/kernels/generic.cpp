// The trainer's loops for any CPU: what the compiler makes of plain loops, with the C library's fused multiply-add.
#include "fp4/bits.h"
#include "fp4/elementary.h"
#include "sim/kernels/loop_names.h"
#include "sim/kernels/train_kernels.h"

#define LANES     4
#define TILE_ROWS 4
#define ISA_NAME  "generic"
namespace fp4::sim::generic {
typedef float fma_vector __attribute__((vector_size(16), aligned(4)));
static inline fma_vector fma_lanes(float x, fma_vector b, fma_vector acc) {
  for (int l = 0; l < LANES; ++l) acc[l] = __builtin_fmaf(x, b[l], acc[l]);
  return acc;
}
#include "sim/kernels/kernels_body.h"
}  // namespace fp4::sim::generic
