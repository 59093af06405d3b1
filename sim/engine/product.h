// Decides: a product of a layer, C [x[0].rows, x[1].rows] = Q(A) Q(B)^T, and which of its ways computes it.
#pragma once

#include "sim/engine/layer.h"
#include "sim/rules/split.h"

namespace fp4::sim {

/// What a split product is given and gives besides C (split.h).
struct SplitUse {
  Channels channels;                        // given, or chosen
  Tensor* decoded[2] = {nullptr, nullptr};  // a and b as they were multiplied, where asked for
};

/// Weights with zeros for what `sparse` leaves out; without it the weights themselves and no columns.
struct MaskedWeights {
  Tensor values;
  std::vector<int32_t> kept;  // columns, row by row, those of row r before ends[r]
  std::vector<int64_t> ends;
};
MaskedWeights masked(Arena& arena, Sparsity sparse, Tensor w);

/// Whether zeros in place of absent weights would give fprop other bits.
bool needs_columns(const Layer& layer, Tensor x, const MaskedWeights& w);

/// What `sparse` of a layer excludes, as an Error; after the products of the layer are known.
void check_sparsity(const Layer& layer, const TrainingRecipe& recipe);

struct ProductCall {
  const EngineBackend& backend;
  Tape& tape;
  Layer& layer;
  int part;
  Gemm gemm;
  std::array<MatrixView, 2> x;  // A and B
  ProductWay way = layer.products[static_cast<size_t>(gemm)].way(tape.pass);
  float* c = nullptr;  // rows `c_row` apart
  int64_t c_row = 0;
  std::array<const Quantized*, 2> ready = {};  // in place of the quantisation of A and B
  SplitUse* split = nullptr;
  const MaskedWeights* sparse = nullptr;  // of B, where zeros in place of what is left out would not do
  const float* bias = nullptr;            // that a device adds on the way

  const GemmSpec& spec() const { return layer.spec(gemm); }
  QuantizeCall call(int operand, MatrixView of) const { return layer.call(tape.pass, {part, gemm, operand}, of); }
  QuantizeCall call(int operand) const { return call(operand, x[static_cast<size_t>(operand)]); }
  LackingOperand lacking(int operand, const QuantizeCall& call, Quantized& out) const;
  /// Into the layer's scratch.
  const Quantized& quantized(int operand, MatrixView of) const;
  GemmOptions options() const { return {spec().accumulator, spec().hadamard.product_divisor(), tape.pass.threads}; }
};

/// By its way, and for a trace, of the first part of a layer's products alone.
void compute(const ProductCall& p);

/// The ways: both operands whole; cut into parts (split.h); with weights that are left out; as `calls` have it.
void whole_product(const ProductCall& p);
void split_product(const ProductCall& p);
void sparse_product(const ProductCall& p);
void called_product(const ProductCall& p);

/// An operand of a forward product, decoded; and what a log notes of Y = X W^T.
Tensor as_multiplied(const Dispatcher& backend, Tape& tape, const Layer& layer, OperandPlace at, Tensor x);
void note(const Dispatcher& backend, Tape& tape, const Layer& layer, int part, Tensor x, Tensor w, Tensor y);

/// Operands that a device is to quantise for the product, into `made`. The host does it on the way.
void add_lacking(ProductCall& p, std::vector<LackingOperand>& all, Quantized made[2]);

}  // namespace fp4::sim
