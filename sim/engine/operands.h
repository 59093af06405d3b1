// Decides: how an operand of a layer's products is quantised: by which random bits and tensor amax, on the host or on a
// device.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "sim/tape/autograd.h"
#include "src/backends/backends.h"
#include "src/gpu/gpu_backend.h"

namespace fp4::sim {

enum class Gemm : uint8_t { fprop, dgrad, wgrad };

/// Operand a (0) or b (1) of a product of a part of a layer.
struct OperandPlace {
  int part;
  Gemm gemm;
  int operand;
};

/// An operand to be quantised into `out`; where this step samples its amax, and its product is told.
struct LackingOperand {
  QuantizeCall call;
  Quantized* out = nullptr;
  float* amax = nullptr;
  const Quantized** ready = nullptr;
};

/// Who quantises and multiplies: the dispatcher on the host, or `resident` alone, where operands and results lie.
struct EngineBackend {
  const Dispatcher& host;
  const gpu::ResidentBackend* resident = nullptr;

  void dequantize(const Quantized& q, float* out, int threads) const {
    resident != nullptr ? resident->dequantize(q, out, threads) : host.dequantize(q, out, threads);
  }
  void quantize_together(std::span<const LackingOperand> all) const;
};

/// The operands of one layer. A held amax is sampled in some training steps and stays until the next.
struct LayerOperands {
  // Layer numbers of a step's parts do not meet below 1024 layers and 32768 parts.
  static constexpr int part_stride = 1024, most_parts = 32768;

  int layer = 0;  // its number
  std::array<std::array<float, 2>, 3> held_amax = {{{-1, -1}, {-1, -1}, {-1, -1}}};
  Quantized scratch[2];  // an operand whose amax is being sampled, or that is cut

  RandomPlace draws(const Pass& pass, OperandPlace at, Purpose purpose) const;
  QuantizeCall call(const Pass& pass, const GemmSpec& s, OperandPlace at, MatrixView x) const;
};

/// Whether this step measures the tensor amax that the next ones hold.
bool samples_amax(const Pass& pass, const QuantSpec& q);

}  // namespace fp4::sim
