// The kernels as a device launches them: one __global__ template over the bodies of device_kernels.h. After runtime.h
// only.
#pragma once

#include "src/gpu/device_kernels.h"

namespace fp4::gpu {

// 2^23 groups of 256 threads: below the limits of CUDA's grid (2^31 - 1 groups) and of HIP's (2^32 threads).
inline constexpr int64_t device_largest_launch = int64_t{1} << 23;

// AMD's compiler must know the size of a group, or it assumes 1024 threads and halves the registers.
#if FP4_GPU_CUDA
#define FP4_GPU_ENTRY __global__ void __launch_bounds__(group_threads, Kernel::groups_at_once)
#else
// A group is four waves, one on each of a processor's four units.
#define FP4_GPU_ENTRY                                                                       \
  __global__ void __attribute__((amdgpu_flat_work_group_size(group_threads, group_threads), \
                                 amdgpu_waves_per_eu(Kernel::groups_at_once)))
#endif

// A kernel's arguments stay where the launch put them: a function that is not inlined, or an index, may take their
// address without a copy of them all in every thread's stack. AMD's compiler has no word for it; their place has.
#if FP4_GPU_CUDA
#define FP4_GPU_ARGUMENT const __grid_constant__
#else
#define FP4_GPU_ARGUMENT
#endif

// Below 48 KiB, which every launch may have. Sized at the launch: as fixed arrays, clang 14 would add up those of all
// kernels as soon as one of their functions is not inlined.
template <class Kernel>
inline constexpr unsigned shared_bytes = (Kernel::shared_words + 3) / 4 * static_cast<unsigned>(sizeof(FourWords));

template <class Kernel>
FP4_GPU_ENTRY entry(FP4_GPU_ARGUMENT Kernel kernel, int64_t first) {
  static_assert(shared_bytes<Kernel> <= 48 * 1024);
  static_assert(sizeof(Kernel) + sizeof(first) <= 4096);  // arguments that every launch may have
  extern __shared__ FourWords shared[];                   // shared_bytes<Kernel> of them, given at the launch
  const Kernel* body = &kernel;
#if defined(__AMDGCN__)
  // Where `kernel`, the first argument, lies; clang 19 spills more of the matrix kernels so.
  if (vendor_of<Kernel> != MatrixKind::amd) body = (const Kernel*)__builtin_amdgcn_kernarg_segment_ptr();
#endif
  (*body)(Group{}, first + group_number(), shared[0].v);
}

}  // namespace fp4::gpu
