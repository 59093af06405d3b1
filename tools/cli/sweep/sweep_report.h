// From a sweep to what its web page shows (sweeps/report/report.h), and what stands beside it there: further chips,
// another sweep (report_beside.cpp).
#pragma once

#include "sweeps/judge/pareto.h"
#include "sweeps/report/report.h"
#include "tools/cli/sweep/sweep_view.h"

namespace fp4::tools {

ReportInput report_input(const SweepView& view, const std::vector<sweeps::ContextFront>& fronts,
                         const sweeps::FrontOptions& options);

// A mean with its interval as a page shows it; a summary of nothing is unknown.
ReportEstimate estimate(double mean, const std::optional<sweeps::Interval>& interval);
ReportEstimate estimate(const sweeps::Summary& summary);

// `fp4sim train ...` that repeats one run of this configuration; the word {seed} stands for the seed.
std::string reproduce_command(const sweeps::ConfigRecord& record);

// The points of `input` with costs and fronts of another chip. A configuration that has no price there keeps its place
// without costs.
ReportChip chip_beside(const ReportInput& input, const SweepView& view, const sweeps::FrontOptions& options);

// The configurations that `other` holds as well: those of the same hash, else those of the same task whose recipe and
// words on all axes are the same and stand for one configuration on each side.
ReportAgainst sweep_beside(const SweepView& view, const ReportInput& input, const SweepView& other,
                           const sweeps::FrontOptions& options);

}  // namespace fp4::tools
