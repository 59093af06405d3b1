// The bodies behind train_kernels.h; included once per instruction set, inside its namespace and target region, with
//   LANES      floats per register of the gemm tile      TILE_ROWS  its rows
//   fma_lanes  LANES fused multiply-adds
//   of AVX-512 (HAS_AVX512) its own words in place of those of plain_words_body.h
// so this header has no guard. No std templates in here: an instance compiled for AVX-512 could be picked by the
// linker for everybody.

#ifndef HAS_AVX512
#include "sim/kernels/plain_words_body.h"
#endif
#include "sim/kernels/sums_body.h"
// The rest uses those.
#include "sim/kernels/elementwise_body.h"
#include "sim/kernels/gemm_body.h"
#include "sim/kernels/optimizer_body.h"
#include "sim/kernels/random_body.h"
#include "sim/kernels/rows_body.h"
#include "sim/kernels/scale_terms_body.h"
#include "sim/kernels/slopes_body.h"

const Kernels table = {.name = ISA_NAME,
                       FP4_TRAINER_LOOPS(FP4_LOOP) FP4_HOST_LOOPS(FP4_LOOP).panel_width = panel,
                       FP4_HOST_PRODUCTS(FP4_LOOP)};
