#include "tools/cli/golden/probe_print.h"

#include <fmt/format.h>

#include "src/arith/spec_text.h"
#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using golden::ProbeVerdict;

std::string verdict_of(const ProbeVerdict& v) {
  if (v.total == 0) return "unknown; no sums";
  if (!v.equals.empty()) return fmt::format("equals {}", fmt::join(v.equals, ", "));
  if (v.nearest.empty()) return "no adder takes these operands";
  const std::string changed = fmt::format("{} with {}", v.nearest, fmt::join(v.changes, ", "));
  if (v.is_explained()) return "is " + changed;
  return fmt::format("unknown; nearest is {} (sum {} differs)", v.changes.empty() ? v.nearest : changed,
                     v.first_difference + 1);
}

nlohmann::ordered_json json_of(const golden::ProbeSection& s, const ProbeVerdict& v) {
  nlohmann::ordered_json out = {{"instruction", s.instruction}, {"equals", v.equals}};
  if (v.equals.empty() && !v.nearest.empty()) {
    out["nearest"] = v.nearest;
    out["changes"] = v.changes;
    out["accumulator"] = fields_of(v.model.row);
    out["stride"] = v.model.stride;
    out["descending"] = v.model.descending;
    out["c_last"] = v.model.adds_c_last;
  }
  out["equal"] = v.equal;
  out["sums"] = v.total;
  if (v.first_difference >= 0) out["first_difference"] = v.first_difference;
  return out;
}

}  // namespace

bool print_probe(const golden::ProbeDump& dump, bool as_json) {
  Table table = {{"instruction", ">sums", ">equal", "adder"}, {}};
  nlohmann::ordered_json sections = nlohmann::ordered_json::array();
  bool all = true;
  for (const golden::ProbeSection& s : dump.sections) {
    const ProbeVerdict v = golden::judge_probe(s);
    all = all && v.is_explained();
    sections.push_back(json_of(s, v));
    table.rows.push_back({s.instruction, std::to_string(v.total), std::to_string(v.equal), verdict_of(v)});
  }
  if (as_json) {
    print_json({{"device", dump.device}, {"instructions", sections}});
  } else {
    fmt::print("{}\n", dump.device);
    print_table(table);
  }
  return all;
}

}  // namespace fp4::tools
