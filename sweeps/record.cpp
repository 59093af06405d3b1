// Words of roles and statuses, in one place for store, tables and command line.
#include "sweeps/record.h"

#include "src/text/error.h"

namespace fp4::sweeps {

std::string_view word(Role role) {
  switch (role) {
    case Role::run: return "run";
    case Role::confirm: return "confirm";
    case Role::reference: return "reference";
    case Role::tune: return "tune";
  }
  return "";
}

Role parse_role(std::string_view text) {
  for (const Role role : {Role::run, Role::confirm, Role::reference, Role::tune}) {
    if (word(role) == text) return role;
  }
  throw unknown_word("role", text, {"run", "confirm", "reference", "tune"});
}

std::string_view word(At at) {
  switch (at) {
    case At::fixed: return "fixed";
    case At::best: return "best";
    case At::edge: return "at edge";
    case At::near: return "near best";
  }
  return "";
}

At parse_at(std::string_view text) {
  for (const At at : {At::fixed, At::best, At::edge, At::near}) {
    if (word(at) == text) return at;
  }
  throw unknown_word("at", text, {"fixed", "best", "at edge", "near best"});
}

Status parse_status(std::string_view text) {
  for (const Status status : {Status::finished, Status::diverged, Status::failed}) {
    if (word(status) == text) return status;
  }
  throw unknown_word("status", text, {"finished", "diverged", "failed"});
}

std::optional<double> measured(const RunRecord& run, std::string_view name) {
  for (const auto& [metric, value] : run.metrics)
    if (metric == name) return value;
  return std::nullopt;
}

}  // namespace fp4::sweeps
