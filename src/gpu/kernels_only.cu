// Every kernel as device code and nothing else: what compile checks compile (tests/gpu_compile.sh), with no runtime
// library and, for AMD targets, with no HIP package.
// clang-format off: the vendor's words come first
#include "src/gpu/runtime.h"
// clang-format on
#include "src/gpu/entry_points.h"

namespace fp4::gpu {

#define FP4_GPU_INSTANTIATE(Kernel) template __global__ void entry<Kernel>(FP4_GPU_ARGUMENT Kernel, int64_t);
FP4_GPU_COMMON_KERNELS(FP4_GPU_INSTANTIATE)
#if FP4_GPU_CUDA
FP4_GPU_NVIDIA_KERNELS(FP4_GPU_INSTANTIATE)
#else
FP4_GPU_AMD_KERNELS(FP4_GPU_INSTANTIATE)
#endif

}  // namespace fp4::gpu
