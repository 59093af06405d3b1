// All kernels, and the list by which devices offer them (device.h). A kernel is a struct of arguments with a body that
// runs on any device and on the host alike (group.h).
#pragma once

#include "src/gpu/folded_gemm.h"
#include "src/gpu/ordered_gemm.h"
#include "src/gpu/quantize_kernels.h"
#include "src/gpu/quick_kernels.h"
#include "src/gpu/strided_gemm.h"
#include "src/gpu/train_elements.h"
#include "src/gpu/train_rows.h"
#include "src/gpu/verify_kernels.h"
#include "src/gpu/wide_gemm.h"

namespace fp4::gpu {

// By the run over which both scales are constant.
using NvidiaFolded32 = FoldedGemm<NvidiaUnit, 32>;
using NvidiaFolded16 = FoldedGemm<NvidiaUnit, 16>;
using AmdFolded32 = FoldedGemm<AmdUnit, 32>;
using AmdFolded16 = FoldedGemm<AmdUnit, 16>;
using Measures = Several<Measure>;
using BlocksScales = Several<BlockScales>;
using ExpandOperands = Several<ExpandOperand>;
using QuantizeTiles = Several<QuantizeTile>;
using QuickRowsPower = Several<QuickRows<ScaleMode::power>>;
using QuickRowsMantissa = Several<QuickRows<ScaleMode::mantissa>>;
using QuickTilePower = Several<QuickTile<ScaleMode::power>>;
using QuickTileMantissa = Several<QuickTile<ScaleMode::mantissa>>;

}  // namespace fp4::gpu

// What the trainer's own loops are on a device (sim/kernels/device.cpp).
#define FP4_GPU_TRAINER_KERNELS(apply)                                                                                \
  apply(ElementLoop) apply(UpdateLoop) apply(SoftmaxRows) apply(SoftmaxBackward) apply(SquareLoss) apply(RmsNormRows) \
      apply(ColumnSums) apply(StridedGemm)
// Kernels of both vendors; the matrix units are a device's own.
#define FP4_GPU_COMMON_KERNELS(apply)                                                                            \
  apply(Measures) apply(OuterFactors) apply(BlocksScales) apply(QuantizeTiles) apply(QuantizeBothWays)           \
      apply(QuickRowsPower) apply(QuickRowsMantissa) apply(QuickTilePower) apply(QuickTileMantissa)              \
          apply(SignsOfClock) apply(Dequantize) apply(PlainGemm) apply(WideGemm) apply(DecodeInOrder)            \
              apply(OrderedGemm) apply(ExpandOperands) apply(FoldOperands) apply(CompareBits) apply(ProbeNative) \
                  FP4_GPU_TRAINER_KERNELS(apply)
#define FP4_GPU_NVIDIA_KERNELS(apply) apply(NvidiaFolded32) apply(NvidiaFolded16)
#define FP4_GPU_AMD_KERNELS(apply)    apply(AmdFolded32) apply(AmdFolded16)
#define FP4_GPU_KERNELS(apply)        FP4_GPU_COMMON_KERNELS(apply) FP4_GPU_NVIDIA_KERNELS(apply) FP4_GPU_AMD_KERNELS(apply)

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
