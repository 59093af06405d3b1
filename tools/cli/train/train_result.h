// The result of a training run: as JSON what `fp4sim train --out` writes and `fp4sim.train` gives, and its curve.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/train/train.h"
#include "tools/cli/command.h"

namespace fp4::tools {

nlohmann::ordered_json train_result(const sim::Json& config, uint64_t seed, const sim::History& h, const Invocation& i);

/// The loss as a picture of characters, `.` training, `o` validation: at most `width` columns and 14 lines; empty when
/// the curve has no finite point.
std::string draw_curve(const std::vector<sim::CurvePoint>& curve, std::size_t width);

}  // namespace fp4::tools
