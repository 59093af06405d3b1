#include "sim/engine/attention_cache.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/rules/split.h"

namespace fp4::sim {

void count_in_cache(Layer& product, Tensor x) {
  for (int64_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x.data[i])) product.largest_stored = std::max(product.largest_stored, std::fabs(x.data[i]));
}

void store_in_cache(const AttentionRules& rules, const Dispatcher& backend, const Pass& pass, const Layer& product,
                    int part, Tensor x, bool by_column) {
  QuantizeCall call = {.x = by_column ? view(x).transposed() : view(x), .spec = rules.kv};
  // No other operand of a product that only rules quantise is a sketch of its factors.
  call.place = product.operands.draws(pass, {part, Gemm::fprop, 1}, Purpose::sketch);
  if (rules.calibrates()) call.held_amax = product.largest_stored;
  call.threads = pass.threads;
  Quantized stored;
  backend.quantize(call, stored);
  if (!by_column) return backend.dequantize(stored, x.data, pass.threads);
  std::vector<float> columns(static_cast<size_t>(x.size()));
  backend.dequantize(stored, columns.data(), pass.threads);
  for (int r = 0; r < x.rows; ++r)
    for (int c = 0; c < x.cols; ++c) x.row(r)[c] = columns[static_cast<size_t>(int64_t{c} * x.rows + r)];
}

}  // namespace fp4::sim
