// K and V as a recipe's `attn.kv` stores them; see attention_rules.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/engine/quantized_linear.h"
#include "sim/rules/split.h"

namespace fp4::sim {

void LinearEngine::store_in_cache(Tape& tape, int product, Tensor x, bool by_column, int part) {
  const AttentionRules& rules = recipe_.attention;
  if (!rules.stores()) return;
  float& held = layers_[static_cast<size_t>(product)].held_amax[0][1];
  if (calibrates_) {
    for (int64_t i = 0; i < x.size(); ++i)
      if (std::isfinite(x.data[i])) held = std::max(held, std::fabs(x.data[i]));
    return;
  }
  if (!tape.pass.quantise || !recipe_.quantise) return;
  QuantizeCall call = {.x = by_column ? view(x).transposed() : view(x), .spec = rules.kv};
  // No other operand of a product that only rules quantise is a sketch of its factors.
  call.place = random_place(tape.pass, {product, part}, Gemm::fprop, 1, Purpose::sketch);
  if (rules.calibrates()) call.held_amax = held;
  call.threads = tape.pass.threads;
  Quantized stored;
  backend_.quantize(call, stored);
  if (!by_column) return backend_.dequantize(stored, x.data, tape.pass.threads);
  std::vector<float> columns(static_cast<size_t>(x.size()));
  backend_.dequantize(stored, columns.data(), tape.pass.threads);
  for (int r = 0; r < x.rows; ++r)
    for (int c = 0; c < x.cols; ++c) x.row(r)[c] = columns[static_cast<size_t>(int64_t{c} * x.rows + r)];
}

}  // namespace fp4::sim
