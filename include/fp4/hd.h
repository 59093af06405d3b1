// Host/device marker. Every function of the core is compiled for the CPU and, through the same headers,
// for CUDA and HIP devices; FP4_HD is the only word that differs. FP4_DEVICE_CODE is 1 while a compiler
// generates device code and 0 otherwise (feature macros are always defined).
#pragma once

#if defined(__CUDACC__) || defined(__HIP__) || defined(__HIPCC__)
#define FP4_HD __host__ __device__
#else
#define FP4_HD
#endif

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define FP4_DEVICE_CODE 1
#else
#define FP4_DEVICE_CODE 0
#endif
