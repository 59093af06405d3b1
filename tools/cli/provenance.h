// Where a result comes from: version, commit, compiler, command line, host, date. Never part of what is compared.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/cli/command.h"

namespace fp4::tools {

nlohmann::ordered_json provenance(const Invocation& invocation);

}  // namespace fp4::tools
