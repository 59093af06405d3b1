// The table behind train_kernels.h of one instruction set (set.h), whose target region ends here.
#pragma once

#if FP4_CPU == 512
#include "sim/kernels/adam_avx512.h"
#endif
#include "sim/kernels/elementwise_body.h"
#include "sim/kernels/gemm_body.h"
#include "sim/kernels/optimizer_body.h"
#include "sim/kernels/random_body.h"
#include "sim/kernels/rows_body.h"
#include "sim/kernels/scale_terms_body.h"
#include "sim/kernels/slopes_body.h"

#define FP4_TEXT(word)  #word
#define FP4_NAME(macro) FP4_TEXT(macro)

namespace fp4::sim::FP4_ISA {

const Kernels table = {.name = FP4_NAME(FP4_ISA),
                       FP4_TRAINER_LOOPS(FP4_LOOP) FP4_HOST_LOOPS(FP4_LOOP).panel_width = panel,
                       FP4_HOST_PRODUCTS(FP4_LOOP)};

}  // namespace fp4::sim::FP4_ISA

#if FP4_CPU != 128 && defined(__clang__)
#pragma clang attribute pop
#elif FP4_CPU != 128
#pragma GCC pop_options
#endif
