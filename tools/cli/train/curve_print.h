// The loss curve as a picture of characters: `.` training loss, `o` validation loss.
#pragma once

#include <string>
#include <vector>

#include "sim/train/train.h"

namespace fp4::tools {

/// At most `width` columns and 14 lines; empty when the curve has no finite point.
std::string draw_curve(const std::vector<sim::CurvePoint>& curve, std::size_t width);

}  // namespace fp4::tools
