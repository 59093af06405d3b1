// All kernels, and the list by which devices offer them (device.h). A kernel is a struct of arguments with a body that
// runs on any device and on the host alike (group.h).
#pragma once

#include "src/gpu/gemm_kernels.h"
#include "src/gpu/quantize_kernels.h"
#include "src/gpu/verify_kernels.h"

namespace fp4::gpu {

using NvidiaPowerGemm = MatrixGemm<NvidiaUnit, ScaleMode::power>;
using NvidiaMantissaGemm = MatrixGemm<NvidiaUnit, ScaleMode::mantissa>;
using AmdPowerGemm = MatrixGemm<AmdUnit, ScaleMode::power>;
using AmdMantissaGemm = MatrixGemm<AmdUnit, ScaleMode::mantissa>;

}  // namespace fp4::gpu

// Kernels of both vendors; the matrix units are a device's own.
#define FP4_GPU_COMMON_KERNELS(apply)                                                                     \
  apply(TensorMaximum) apply(TensorFactorOf) apply(OuterFactors) apply(SquareScales) apply(QuantizeTile)  \
      apply(QuantizeBothWays) apply(HadamardTile) apply(Dequantize) apply(PlainGemm) apply(ExpandOperand) \
          apply(ExponentRange) apply(CompareBits) apply(ProbeNative)
#define FP4_GPU_MATRIX_KERNELS(apply) \
  apply(NvidiaPowerGemm) apply(NvidiaMantissaGemm) apply(AmdPowerGemm) apply(AmdMantissaGemm)
#define FP4_GPU_KERNELS(apply) FP4_GPU_COMMON_KERNELS(apply) FP4_GPU_MATRIX_KERNELS(apply)
