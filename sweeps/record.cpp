// Words of roles and statuses, in one place for store, tables and command line.
#include "sweeps/record.h"

#include "src/text/named_rows.h"

namespace fp4::sweeps {

// In the order of the enumerators.
static const std::vector<std::string> roles = {"run", "confirm", "reference", "tune"};
static const std::vector<std::string> places = {"fixed", "best", "at edge", "near best"};

std::string_view word(Role role) { return roles[static_cast<size_t>(role)]; }
std::string_view word(At at) { return places[static_cast<size_t>(at)]; }
Role parse_role(std::string_view text) { return static_cast<Role>(accepted_index("role", text, roles)); }
At parse_at(std::string_view text) { return static_cast<At>(accepted_index("at", text, places)); }
Status parse_status(std::string_view text) {
  return static_cast<Status>(accepted_index("status", text, {"finished", "diverged", "failed"}));
}

std::optional<double> measured(const RunRecord& run, std::string_view name) {
  for (const auto& [metric, value] : run.metrics)
    if (metric == name) return value;
  return std::nullopt;
}

}  // namespace fp4::sweeps
