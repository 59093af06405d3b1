// What `fp4sim verify` says: its verdict as text, as wide as the terminal, and as JSON; of --probe the adder behind the
// words of each instruction.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "src/golden/probe_dump.h"
#include "tools/cli/golden/verdict.h"

namespace fp4::tools {

std::string verdict_text(const Verdict& verdict);
nlohmann::ordered_json verdict_json(const Verdict& verdict);

// Whether some model gives every word of every instruction.
bool print_probe(const golden::ProbeDump& dump, bool as_json);

}  // namespace fp4::tools
