// Decides: which quantisation kernels a linear layer runs in a step. Three tensors, two copies each:
//   X  [tokens, in]   row copy for fprop.a, column copy for wgrad.b
//   W  [out, in]      row copy for fprop.b, column copy for dgrad.b; once a step and expert, whatever the
//                     micro-batches
//   dY [tokens, out]  row copy for dgrad.a, column copy for wgrad.a
// A copy made from the decoded forward operand (source fprop_quantised) reads codes instead of bf16, in a kernel apart.
#include <utility>

#include "sweeps/cost/cost.h"

namespace fp4::cost {

namespace {

struct Consumer {
  const GemmFacts* gemm;
  const OperandFacts* operand;
};

void add_kernels(std::vector<QuantiseKernel>& kernels, const std::string& name, double elements, const Consumer& row,
                 const Consumer& column, const CostOptions& options, bool shares_codes) {
  const double read = options.fused ? 0 : options.weights.input_bytes;
  QuantiseKernel joint{name, elements, read, {}};
  for (const Consumer& consumer : {row, column}) {
    if (consumer.gemm == nullptr || !(consumer.operand->quantised || consumer.operand->masked)) continue;
    const Copy copy{consumer.operand, consumer.gemm->hadamard, shares_codes && consumer.gemm == column.gemm};
    if (consumer.operand->from_fprop) {
      kernels.push_back({name + " again", elements, row.operand->stored_bits() / 8, {copy}});
    } else if (options.one_pass) {
      joint.copies.push_back(copy);
    } else {
      kernels.push_back({name, elements, read, {copy}});
    }
  }
  if (!joint.copies.empty()) kernels.insert(kernels.begin(), std::move(joint));
}

}  // namespace

std::vector<QuantiseKernel> quantise_kernels(const RecipeFacts& recipe, const Linear& linear, double tokens,
                                             double width_out, const CostOptions& options) {
  const Consumer fprop_x{&recipe.fprop, &recipe.fprop.a}, fprop_w{&recipe.fprop, &recipe.fprop.b};
  const Consumer dgrad_dy{linear.dgrad ? &recipe.dgrad : nullptr, &recipe.dgrad.a};
  const Consumer dgrad_w{linear.dgrad ? &recipe.dgrad : nullptr, &recipe.dgrad.b};
  const Consumer wgrad_dy{&recipe.wgrad, &recipe.wgrad.a}, wgrad_x{&recipe.wgrad, &recipe.wgrad.b};
  const double in = static_cast<double>(linear.in);
  std::vector<QuantiseKernel> x, w, dy;
  add_kernels(x, "X of " + linear.name, tokens * in, fprop_x, wgrad_x, options, false);
  add_kernels(w, "W of " + linear.name, in * width_out * static_cast<double>(linear.experts), fprop_w, dgrad_w, options,
              recipe.one_weight_quantiser);
  add_kernels(dy, "dY of " + linear.name, tokens * width_out, dgrad_dy, wgrad_dy, options, false);
  x.insert(x.end(), w.begin(), w.end());
  x.insert(x.end(), dy.begin(), dy.end());
  return x;
}

}  // namespace fp4::cost
