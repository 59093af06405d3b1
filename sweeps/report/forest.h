// A study's effects as forest plots in one SVG, a panel for each task: a line is the interval, a dot the mean, coloured
// where the interval does not hold 0; shaded is +-delta. An axis ends at three times the median of its panel's interval
// ends, so that one large effect does not hide the others: arrows stand for ends that lie beyond, a number for a mean.
// More than 60 lines stand as small multiples: their groups side by side in columns of one height, on the same axes.
#pragma once

#include <string>
#include <vector>

#include "sweeps/report/report.h"

namespace fp4 {

struct ForestWords {
  std::string title;
  std::string note;    // the line below; "" says what the colours mean
  bool times = false;  // the numbers are factors less 1: the axis shows the factors, 2 x as far from 1 x as 0.5 x
};

/// Text of an SVG.
std::string svg_escaped(const std::string& text);

std::string forest_svg(const std::vector<ReportComparison>& rows, const ForestWords& words);

}  // namespace fp4
