// The result of a training run as JSON: what `fp4sim train --out` writes and `fp4sim.train` gives.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/train/train.h"
#include "tools/cli/command.h"

namespace fp4::tools {

nlohmann::ordered_json train_result(const sim::Json& config, uint64_t seed, const sim::History& h, const Invocation& i);

}  // namespace fp4::tools
