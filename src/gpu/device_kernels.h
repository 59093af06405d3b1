// All kernels, and the list by which devices offer them (device.h). A kernel is a struct of arguments with a body that
// runs on any device and on the host alike (group.h).
#pragma once

#include "src/gpu/exact_gemm.h"
#include "src/gpu/matrix_gemm.h"
#include "src/gpu/ordered_gemm.h"
#include "src/gpu/quantize_kernels.h"
#include "src/gpu/quick_kernels.h"
#include "src/gpu/staged_gemm.h"
#include "src/gpu/strided_gemm.h"
#include "src/gpu/train_elements.h"
#include "src/gpu/train_rows.h"
#include "src/gpu/verify_kernels.h"
#include "src/gpu/wide_gemm.h"

namespace fp4::gpu {

// By the run over which both scales are constant.
using NvidiaPower32 = MatrixGemm<NvidiaUnit, ScaleMode::power, 1>;
using NvidiaPower16 = MatrixGemm<NvidiaUnit, ScaleMode::power, 2>;
using NvidiaMantissa32 = MatrixGemm<NvidiaUnit, ScaleMode::mantissa, 1>;
using NvidiaMantissa16 = MatrixGemm<NvidiaUnit, ScaleMode::mantissa, 2>;
using AmdPower32 = MatrixGemm<AmdUnit, ScaleMode::power, 1>;
using AmdPower16 = MatrixGemm<AmdUnit, ScaleMode::power, 2>;
using AmdMantissa32 = MatrixGemm<AmdUnit, ScaleMode::mantissa, 1>;
using AmdMantissa16 = MatrixGemm<AmdUnit, ScaleMode::mantissa, 2>;
using QuickRowsPower = QuickRows<ScaleMode::power>;
using QuickRowsMantissa = QuickRows<ScaleMode::mantissa>;
using QuickTilePower = QuickTile<ScaleMode::power>;
using QuickTileMantissa = QuickTile<ScaleMode::mantissa>;
using NvidiaBf16Gemm = StagedGemm;
using AmdBf16Gemm = ExactGemm<AmdBf16>;
using AmdScaledGemm = ExactGemm<AmdScaled>;

}  // namespace fp4::gpu

// What the trainer's own loops are on a device (sim/kernels/device.cpp).
#define FP4_GPU_TRAINER_KERNELS(apply)                                                                                \
  apply(ElementLoop) apply(UpdateLoop) apply(SoftmaxRows) apply(SoftmaxBackward) apply(SquareLoss) apply(RmsNormRows) \
      apply(ColumnSums) apply(StridedGemm)
// Kernels of both vendors; the matrix units are a device's own.
#define FP4_GPU_COMMON_KERNELS(apply)                                                                               \
  apply(TensorMaximum) apply(TensorFactorOf) apply(OuterFactors) apply(BlockScales) apply(QuantizeTile)             \
      apply(QuantizeBothWays) apply(QuickRowsPower) apply(QuickRowsMantissa) apply(QuickTilePower)                  \
          apply(QuickTileMantissa) apply(HadamardTile) apply(Dequantize) apply(PlainGemm) apply(WideGemm)           \
              apply(DecodeInOrder) apply(OrderedGemm) apply(ExpandOperand) apply(FindTileFacts) apply(DecodeToBf16) \
                  apply(PackCodes) apply(CompareBits) apply(ProbeNative) FP4_GPU_TRAINER_KERNELS(apply)
#define FP4_GPU_NVIDIA_KERNELS(apply) \
  apply(NvidiaPower32) apply(NvidiaPower16) apply(NvidiaMantissa32) apply(NvidiaMantissa16) apply(NvidiaBf16Gemm)
#define FP4_GPU_AMD_KERNELS(apply) \
  apply(AmdPower32) apply(AmdPower16) apply(AmdMantissa32) apply(AmdMantissa16) apply(AmdBf16Gemm) apply(AmdScaledGemm)
#define FP4_GPU_KERNELS(apply) FP4_GPU_COMMON_KERNELS(apply) FP4_GPU_NVIDIA_KERNELS(apply) FP4_GPU_AMD_KERNELS(apply)

namespace fp4::gpu {

enum class MatrixKind : uint8_t { none, nvidia, amd };

// Whose matrix units a kernel needs.
template <class Kernel>
inline constexpr MatrixKind vendor_of = MatrixKind::none;
#define FP4_GPU_NVIDIA(Kernel) \
  template <>                  \
  inline constexpr MatrixKind vendor_of<Kernel> = MatrixKind::nvidia;
#define FP4_GPU_AMD(Kernel) \
  template <>               \
  inline constexpr MatrixKind vendor_of<Kernel> = MatrixKind::amd;
FP4_GPU_NVIDIA_KERNELS(FP4_GPU_NVIDIA)
FP4_GPU_AMD_KERNELS(FP4_GPU_AMD)
#undef FP4_GPU_NVIDIA
#undef FP4_GPU_AMD

}  // namespace fp4::gpu
