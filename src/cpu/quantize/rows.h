// What an instruction set brings of its own to quantising operands whose rows are contiguous. Each set defines:
//   row_block_width, row_maxima, row_table_bytes   blocks of panels straight from sixteen rows; width 0: not here
//   Sweep, plan_of_sweep, sweep                    panels with quotient scales, along the row
//   quantize_flat, flat_columns                    operands into the layout of files
#pragma once

#include "src/cpu/simd/lanes.h"

#if FP4_CPU == 512
#include "src/cpu/quantize/panel_sweep_avx512.h"
#include "src/cpu/quantize/row_block_avx512.h"
#include "src/cpu/quantize/runs_avx512.h"
#else
#include "src/cpu/quantize/rows_avx2.h"
#endif
