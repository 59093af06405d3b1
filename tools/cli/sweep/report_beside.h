// What stands beside a sweep on its page: further chips, another sweep.
#pragma once

#include "sweeps/judge/pareto.h"
#include "sweeps/report/report.h"
#include "tools/cli/sweep/sweep_view.h"

namespace fp4::tools {

// The points of `input` with costs and fronts of another chip. A configuration that has no price there keeps its place
// without costs.
ReportChip chip_beside(const ReportInput& input, const SweepView& view, const sweeps::FrontOptions& options);

// The configurations that `other` holds as well: those of the same hash, else those of the same task whose recipe and
// words on all axes are the same and stand for one configuration on each side.
ReportAgainst sweep_beside(const SweepView& view, const ReportInput& input, const SweepView& other,
                           const sweeps::FrontOptions& options);

}  // namespace fp4::tools
