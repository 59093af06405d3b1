// Decides: what a recipe (fp4/spec.h, sim/rules/schedule.h) means to the cost model. The only file here that knows the
// axes; it reads the cost facts of their rows (bits, slots per element, passes, random bits) and no word, so a new row
// needs no change.
#pragma once

#include "sim/rules/schedule.h"
#include "sweeps/cost/workload.h"

namespace fp4::cost {

RecipeFacts facts_of(const Recipe& recipe);
/// With its rules over layers and its phases; `steps` of the training, 0: not known (sim::phase_shares).
RecipeFacts facts_of(const sim::TrainingRecipe& recipe, int steps = 0);
OperandFacts facts_of(const OperandSpec& operand);
/// Bits of a code in memory; those of micro-exponents are shared out.
double bits_of(const FloatFormat& element);
/// Codes of so many bits, of an element that every chip takes, under a profile's "e8m0/32".
OperandFacts operand_with(double element_bits, const std::string& scale_and_block);

}  // namespace fp4::cost
