// The data of the report page as packed columns (layout: report_pack.h), not yet compressed.
#pragma once

#include <string>

#include "sweeps/report/report.h"

namespace fp4 {

// Throws Error where a configuration or the provenance is no JSON; the lengths are taken as checked by make_report.
std::string report_data(const ReportInput& input);

}  // namespace fp4
