// Decides: what a forward product keeps of its operands for backward: codes, and where a recipe's backward meets
// fprop's operands, their values.
#pragma once

#include "sim/engine/product.h"

namespace fp4::sim {

/// A forward operand that backward needs, in fprop's rotated basis.
struct SavedOperand {
  const Quantized* quantized = nullptr;
  Tensor met;      // as the quantiser met it, where an estimator asks for it
  Tensor decoded;  // where a source asks for it
};

struct SavedForward {
  Var x, w, bias, y;
  bool relu;
  Tensor weights;  // as fprop met them: w, or with the zeros of a mask
  SavedOperand of[2] = {};
  Channels channels = {};               // of a split by channels
  const Quantized* of_wgrad = nullptr;  // wgrad's operand b, if the forward made it
};

/// Quantises what backward needs of fprop's operands, for the product, too. `decodes` where backward follows on this
/// tape; `is_there`: the layer's latest codes are those of this forward.
void save_operands(ProductCall& p, SavedForward& saved, bool decodes, bool is_there);

/// Dgrad's b where it is the transpose of fprop's b, codes and scales, and would not come out as that by itself; null:
/// it is quantised as any other.
const Quantized* turned_weights(Layer& layer, int part);

}  // namespace fp4::sim
