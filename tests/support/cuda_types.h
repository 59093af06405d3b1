// NVIDIA's header-only conversion functions, where a toolkit is on the machine: FP4_HAVE_CUDA_TYPES says so (0 or 1).
#pragma once

#if __has_include(<cuda_fp4.h>) && __has_include(<cuda_fp8.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#pragma GCC diagnostic pop
#define FP4_HAVE_CUDA_TYPES 1
#else
#define FP4_HAVE_CUDA_TYPES 0
#endif
