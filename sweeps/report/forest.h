// A study's effects as forest plots in one SVG, a panel for each task: a line is the interval, a dot the mean, coloured
// where the interval does not hold 0; shaded is +-delta. An axis ends at three times the median of its panel's interval
// ends, so that one large effect does not hide the others: arrows stand for ends that lie beyond, a number for a mean.
#pragma once

#include <string>
#include <vector>

#include "sweeps/report/report.h"

namespace fp4 {

// `note`: the line below; "" says what the colours mean.
std::string forest_svg(const std::vector<ReportComparison>& rows, const std::string& title,
                       const std::string& note = "");

}  // namespace fp4
