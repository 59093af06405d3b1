// Recipes made of plain numbers: references of the overheads, and what tests and validation build by hand.
#include "sweeps/cost/workload.h"

#include <algorithm>

namespace fp4::cost {

RecipeFacts unquantised_recipe(std::string name, double element_bits) {
  RecipeFacts recipe;
  recipe.name = std::move(name);
  OperandFacts operand;
  operand.element_bits = element_bits;
  recipe.fprop = recipe.dgrad = recipe.wgrad = GemmFacts{operand, operand, {}};
  recipe.high_class = element_bits > 16 ? "fp32" : "bf16";
  return recipe;
}

RecipeFacts uniform_recipe(std::string name, double element_bits, double scale_bits, double scale_block) {
  RecipeFacts recipe;
  recipe.name = std::move(name);
  OperandFacts operand;
  operand.quantised = true;
  operand.element_bits = element_bits;
  operand.scale = "e8m0";
  operand.scale_bits = scale_bits;
  operand.scale_block = scale_block;
  recipe.fprop = recipe.dgrad = recipe.wgrad = GemmFacts{operand, operand, {}};
  return recipe;
}

std::string format_class(double bits) {
  if (bits <= 4) return "fp4";
  if (bits <= 6) return "fp6";
  if (bits <= 8) return "fp8";
  return bits <= 16 ? "bf16" : "fp32";
}

std::string format_class(const GemmFacts& gemm) {
  return format_class(std::max(gemm.a.element_bits, gemm.b.element_bits));
}

}  // namespace fp4::cost
