// What `fp4sim verify --probe` prints: the adder behind the words of each instruction.
#pragma once

#include "src/golden/probe_dump.h"

namespace fp4::tools {

// Whether some model gives every word of every instruction.
bool print_probe(const golden::ProbeDump& dump, bool as_json);

}  // namespace fp4::tools
