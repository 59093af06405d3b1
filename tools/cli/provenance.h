// Where a result comes from: version, commit, compiler, command line, host, date. Never part of what is compared.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/cli/command.h"

namespace fp4::tools {

// "1a2b3c4d5e6f", with "-dirty" when sources differ from it; "unknown" outside a git work tree.
const char* commit_of_build();
const char* compiler_word();  // "g++ 12.2.0"

nlohmann::ordered_json provenance(const Invocation& invocation);

}  // namespace fp4::tools
