// Fronts for the terminal: a scatter of cost against quality, and the tables below it.
#pragma once

#include <string>
#include <vector>

#include "sweeps/judge/pareto.h"

namespace fp4::tools {

// Letters: # on, o undecided, x off, s screening; . everything else that was run. Points above the picture stand in its
// top row. Plain ASCII, at most `width` columns.
std::string front_picture(const sweeps::ContextFront& front, const std::string& x, const std::string& y, size_t width);

// A cost as tables show it: 2.04% for overheads.
std::string cost_text(const std::string& column, double value);

// One sentence: noise floor, SD of the differences that the front compares, detectable effect; "" without any.
std::string spread_text(const sweeps::ContextFront& front);

// The words of a point's setting, with a star where the chip decodes what it does not multiply; what the star says,
// with up to four settings of the front that have one, "" where none has; the same as a line.
std::string marked_setting(const sweeps::Results& results, const sweeps::FrontPoint& point);
std::string decoded_text(const sweeps::Results& results, const sweeps::ContextFront& front);
void print_decoded(const sweeps::Results& results, const sweeps::ContextFront& front);

// A line with the 95 % intervals of the overheads of what leads, as the cost model doubts them.
void print_overhead_ranges(const sweeps::ContextFront& front, const std::string& x);

void print_front(const sweeps::Results& results, const sweeps::ContextFront& front, const sweeps::FrontOptions& options,
                 size_t limit);

}  // namespace fp4::tools
