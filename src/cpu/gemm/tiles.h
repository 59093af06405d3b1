// The tiles of an instruction set: functions `<kernel>_kernel`, which choose a tile of 8 rows of A by 1 or 2 panels of
// B; null where the instruction set has none.
#pragma once

#include "src/cpu/simd/lanes.h"

#if FP4_CPU == 512
#include "src/cpu/gemm/gemm_cut_avx512.h"
#include "src/cpu/gemm/gemm_groups_avx512.h"
#include "src/cpu/gemm/gemm_pairs_avx512.h"
#include "src/cpu/gemm/gemm_single_avx512.h"
#include "src/cpu/gemm/gemm_whole_avx512.h"
#else
#include "src/cpu/gemm/gemm_int8_body.h"
#endif
