// The trainer's loops for AVX2 with FMA (x86-64-v3).
#if defined(__x86_64__)
#define FP4_CPU 256
#include "sim/kernels/kernels_body.h"
#endif
