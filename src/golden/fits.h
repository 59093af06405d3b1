// Causes whose numbers come from the dump itself: random bits of another stream, factors and biases of an epilogue.
#pragma once

#include "src/golden/diagnose.h"
#include "src/golden/dump_evidence.h"

namespace fp4::golden {

// Codes that other random words explain, when nothing in front of the rounding differs: scales and tensor scales equal.
void add_draw_causes(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence,
                     const std::string& backend, uint64_t before, std::vector<Cause>& causes);

// Outputs that are P, alpha*P, P + bias, alpha*P + bias or alpha*P + beta*C (where the case has a C), rounded to a type
// of outputs, with P the product under one of the named adders; at most one cause, the case's own adder and fp32 first.
// What a corner of the outputs tells is tried there first.
void add_epilogue_causes(const Case& c, const Simulator& simulator, const std::vector<Evidence>& evidence,
                         const Sample* corner, const Simulator* of_corner, uint64_t before, std::vector<Cause>& causes);

}  // namespace fp4::golden
