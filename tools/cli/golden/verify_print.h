// The verdict of `fp4sim verify` as text, as wide as the terminal, and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/cli/golden/verdict.h"

namespace fp4::tools {

std::string verdict_text(const Verdict& verdict);
nlohmann::ordered_json verdict_json(const Verdict& verdict);

}  // namespace fp4::tools
