// From a sweep to what its web page shows (sweeps/report/report.h).
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

}  // namespace fp4::tools
