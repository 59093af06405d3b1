// The vendor header: one set of names for CUDA and HIP, so that every kernel and every call is written once. Included
// first by the files that a device compiler reads, never by the rest of the program.
//   FP4_GPU_DEVICE_ONLY=1: no runtime headers, device code only. clang checks AMD targets this way without any HIP
//   package (-x hip --cuda-device-only -nogpuinc -nogpulib); HIP's own words become the attributes they stand for.
#pragma once

#if !defined(FP4_GPU_DEVICE_ONLY)
#define FP4_GPU_DEVICE_ONLY 0
#endif

// HIP's headers may define CUDA's words as well.
#if defined(__CUDACC__) && !defined(__HIP__)
#define FP4_GPU_CUDA 1
#else
#define FP4_GPU_CUDA 0
#endif

#if FP4_GPU_DEVICE_ONLY
#include <stdlib.h>  // clang 19's wrapper of <new> calls malloc
#define __host__   __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#elif FP4_GPU_CUDA
#include <cuda_runtime.h>
#define gpuError_t              cudaError_t
#define gpuSuccess              cudaSuccess
#define gpuGetErrorName         cudaGetErrorName
#define gpuGetErrorString       cudaGetErrorString
#define gpuGetLastError         cudaGetLastError
#define gpuGetDeviceCount       cudaGetDeviceCount
#define gpuGetDeviceProperties  cudaGetDeviceProperties
#define gpuDeviceProp           cudaDeviceProp
#define gpuSetDevice            cudaSetDevice
#define gpuMalloc               cudaMalloc
#define gpuFree                 cudaFree
#define gpuMemcpyAsync          cudaMemcpyAsync
#define gpuMemcpyKind           cudaMemcpyKind
#define gpuMemcpyHostToDevice   cudaMemcpyHostToDevice
#define gpuMemcpyDeviceToHost   cudaMemcpyDeviceToHost
#define gpuMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define gpuStream_t             cudaStream_t
#define gpuStreamSynchronize    cudaStreamSynchronize
#define gpuEvent_t              cudaEvent_t
#define gpuEventCreate          cudaEventCreate
#define gpuEventDestroy         cudaEventDestroy
#define gpuEventRecord          cudaEventRecord
#define gpuEventSynchronize     cudaEventSynchronize
#define gpuEventElapsedTime     cudaEventElapsedTime
#else
#include <hip/hip_runtime.h>
#define gpuError_t              hipError_t
#define gpuSuccess              hipSuccess
#define gpuGetErrorName         hipGetErrorName
#define gpuGetErrorString       hipGetErrorString
#define gpuGetLastError         hipGetLastError
#define gpuGetDeviceCount       hipGetDeviceCount
#define gpuGetDeviceProperties  hipGetDeviceProperties
#define gpuDeviceProp           hipDeviceProp_t
#define gpuSetDevice            hipSetDevice
#define gpuMalloc               hipMalloc
#define gpuFree                 hipFree
#define gpuMemcpyAsync          hipMemcpyAsync
#define gpuMemcpyKind           hipMemcpyKind
#define gpuMemcpyHostToDevice   hipMemcpyHostToDevice
#define gpuMemcpyDeviceToHost   hipMemcpyDeviceToHost
#define gpuMemcpyDeviceToDevice hipMemcpyDeviceToDevice
#define gpuStream_t             hipStream_t
#define gpuStreamSynchronize    hipStreamSynchronize
#define gpuEvent_t              hipEvent_t
#define gpuEventCreate          hipEventCreate
#define gpuEventDestroy         hipEventDestroy
#define gpuEventRecord          hipEventRecord
#define gpuEventSynchronize     hipEventSynchronize
#define gpuEventElapsedTime     hipEventElapsedTime
#endif
