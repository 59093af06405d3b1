// Fronts for the terminal: a scatter of cost against quality and the tables below it (front_print.cpp), of a raced
// front the steps with what is tied with each, and gaps in units that others publish in (race_print.cpp), and the
// answer in one sentence: which setting to take at which price (front_answer.cpp).
#pragma once

#include <string>
#include <vector>

#include "sweeps/judge/pareto.h"
#include "tools/cli/command.h"

namespace fp4::tools {

// --x and --y.
void add_front_options(CLI::App& app, sweeps::FrontOptions& options);

// Letters: # on, o undecided, x off, s screening; . everything else that was run. Points above the picture stand in its
// top row. Plain ASCII, at most `width` columns.
std::string front_picture(const sweeps::ContextFront& front, const std::string& x, const std::string& y, size_t width);

// A cost as tables show it: 2.04% for overheads.
std::string cost_text(const std::string& column, double value);

// One sentence: noise floor, SD of the differences that the front compares, detectable effect; "" without any.
std::string spread_text(const sweeps::ContextFront& front);

// The words of a point's setting, with a star where the chip decodes what it does not multiply; what the star says,
// with up to four settings of the front that have one, "" where none has.
std::string marked_setting(const sweeps::Results& results, const sweeps::FrontPoint& point);
std::string decoded_text(const sweeps::Results& results, const sweeps::ContextFront& front);

// What the star says, and the 95 % intervals of the overheads of what leads, as the cost model doubts them; a line
// each.
void print_footnotes(const sweeps::Results& results, const sweeps::ContextFront& front, const std::string& x);

void print_front(const sweeps::Results& results, const sweeps::ContextFront& front, const sweeps::FrontOptions& options,
                 size_t limit);

// `members`: most tied members named under a step, 0 for all.
void print_race(const sweeps::Results& results, const sweeps::ContextFront& front, const sweeps::FrontOptions& options,
                size_t members);

// "12.3 %": the shown mean of column `y` over what `scale_text` names; "" where it is unknown.
std::string relative_text(const sweeps::ContextFront& front, const sweeps::FrontPoint& point, const std::string& y);
// What the shares of a front are shares of.
std::string scale_text(const sweeps::ContextFront& front);

// Extra tokens of these points over fp32 and mxfp8; nothing where the sweep has no curves of loss over tokens.
void print_tokens(const sweeps::Results& results, const sweeps::ContextFront& front,
                  const std::vector<const sweeps::FrontPoint*>& points);

// "Loss of a small classifier, step of llama3_8b on b200 as modelled: at 2 % overhead (-9 .. 15 %) ue5m3_hold50 loses
// 0.031; from 22.5 % mxfp8 loses nothing that matters." `priced`: "llama3_8b on b200".
// A setting loses nothing that matters when its whole interval lies below delta. Of more than four steps the first two
// and the last two are named. Says as well that nothing raced, that something is undecided, or that all runs diverged.
std::string front_answer(const sweeps::Results& results, const sweeps::ContextFront& front,
                         const sweeps::FrontOptions& options, const std::string& priced);

// The answers of all fronts, each after the name of its context where there are several.
std::vector<std::string> front_answers(const sweeps::Results& results, const std::vector<sweeps::ContextFront>& fronts,
                                       const sweeps::FrontOptions& options, const std::string& priced);

}  // namespace fp4::tools
