// The trainer's loops for AVX-512 (x86-64-v4 and more: the set of src/cpu).
#if defined(__x86_64__)
#define FP4_CPU 512
#include "sim/kernels/kernels_body.h"
#endif
