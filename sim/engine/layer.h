// Decides: what a layer is to the engine: its place in the model, its products in the present phase of the recipe, and
// what it keeps from step to step.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "sim/engine/calibration.h"
#include "sim/engine/operands.h"
#include "sim/engine/watched_weights.h"
#include "sim/rules/schedule.h"

namespace fp4::sim {

/// How a product is computed; product.cpp has the function of each.
enum class ProductWay : uint8_t { plain, whole, split, sparse, called };

struct LayerProduct {
  GemmSpec spec;
  ProductWay trained = ProductWay::plain, judged = ProductWay::plain;  // in a training step, and of a trained network
  int64_t count = 0;                                                   // in training steps
  bool is_plain() const { return trained == ProductWay::plain; }       // fp32 operands as they are
  ProductWay way(const Pass& pass) const {
    return !pass.quantise ? ProductWay::plain : pass.training ? trained : judged;
  }
};

/// Codes of X, W and W^T in fprop's words, for backward; storage is kept between steps.
using ForwardCodes = std::array<Quantized, 3>;

struct Layer {
  enum class Treatment : uint8_t { plain, skipped, quantised };

  std::string name;
  int in, out;
  bool quantisable;
  double multiply_adds;
  bool is_product;  // what only a rule quantises and runs plainly elsewhere
  LayerOperands operands;
  int position = -1;  // among the quantisable ones
  Treatment treatment = Treatment::plain;
  Sparsity sparse = Sparsity::none;
  Calls calls;  // none of a product that only a rule quantises
  std::array<LayerProduct, 3> products;
  std::deque<ForwardCodes> parts;                 // where they stand, they stay
  WatchedWeights weights;                         // of a linear layer
  std::unique_ptr<InputStatistics> inputs;        // while calibrating
  std::unique_ptr<CalibratedWeights> calibrated;  // afterwards
  float largest_stored = -1;                      // of a cache, while calibrating

  const GemmSpec& spec(Gemm gemm) const { return products[static_cast<size_t>(gemm)].spec; }
  QuantizeCall call(const Pass& pass, OperandPlace at, MatrixView x) const {
    return operands.call(pass, spec(at.gemm), at, x);
  }
  bool is_quantised() const { return treatment == Treatment::quantised; }
};

}  // namespace fp4::sim
