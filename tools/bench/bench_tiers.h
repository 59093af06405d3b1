// `fp4sim bench tiers`: which backend does what.
#pragma once

#include <nlohmann/json.hpp>

#include "src/backends/backends.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

// The backend that multiplies, "-" where a forced one declines.
std::string gemm_tier(const Dispatcher& backend, const QuantSpec& a, const QuantSpec& b, const GemmOptions& options);

// Which backend serves each preset under each accumulator, and each product of each recipe; appended to `json` too.
// `has_kernels`: and which gemm kernels, as shares of the tiles of a small product.
Table tier_table(const Dispatcher& backend, bool has_kernels, nlohmann::ordered_json& json);

}  // namespace fp4::tools
