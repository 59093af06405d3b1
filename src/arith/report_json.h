// The numbers of a quantised tensor's report as JSON, by their names.
#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>

#include "src/arith/quantize_statistics.h"

namespace fp4 {

// In the order of `names`: rows, cols, elements, nmse, decibels (null without an error), largest_error; clipped, zeros,
// underflows (shares of all elements); nonfinite, bits_per_element, bytes, backend.
nlohmann::ordered_json report_json(const QuantizeReport& report, std::initializer_list<const char*> names);

}  // namespace fp4
