/* The arithmetic of a dot unit for simulators: what fp4sim_pkg.sv imports by DPI-C from libfp4sim. Words are those of
 * `fp4sim list`; packed vectors come as SystemVerilog hands them over, 32 bits a word, element 0 in the lowest bits.
 * Every function keeps no state, allocates nothing, and returns 0, or 2 for a word or a size that it does not know. */
#ifndef FP4SIM_DPI_H
#define FP4SIM_DPI_H

#include "fp4sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The code of x (bits of a float32) under a scale code; scale "none": x itself. draw: random bits of that rounding. */
FP4SIM_API int fp4sim_dpi_quantize(const char* element, const char* scale, const char* rounding, int random_bits,
                                   uint32_t draw, uint32_t scale_code, uint32_t x, uint32_t* code);
/* The scale code of a block whose largest magnitude is amax (bits of a float32), without tensor scale. */
FP4SIM_API int fp4sim_dpi_scale(const char* element, const char* scale, const char* rule, uint32_t amax,
                                uint32_t* scale_code);
/* sum of the products of k codes, exact, in units of 2^(2 q), q that of the element's smallest step (2^-2 of e2m1). */
FP4SIM_API int fp4sim_dpi_dot(const char* element, int k, const uint32_t* a, const uint32_t* b, int64_t* sum);
/* d = c + the products of k codes under their scales, as the adder does: b200_mxf4, fp32_block, ... */
FP4SIM_API int fp4sim_dpi_step(const char* adder, const char* element, const char* scale, int block, int k,
                               const uint32_t* a, const uint32_t* b, const uint32_t* scale_a, const uint32_t* scale_b,
                               uint32_t c, uint32_t* d);

#ifdef __cplusplus
}
#endif

#endif
