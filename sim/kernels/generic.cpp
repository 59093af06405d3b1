// The trainer's loops for any CPU: what the compiler makes of plain loops, with the C library's fused multiply-add.
#define FP4_CPU 128
#include "sim/kernels/kernels_body.h"
