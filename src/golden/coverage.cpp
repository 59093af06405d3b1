#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/golden/candidate.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"

namespace fp4::golden {
namespace {

// The answers that a case has, each once whatever its layouts.
std::set<std::string> parts_of(const Case& c) {
  std::set<std::string> parts;
  for (const auto& [name, record] : c.stored)
    if (const ArrayName n = parse_array_name(name); !n.stage.empty() && n.stage != input_stage) parts.insert(n.part);
  return parts;
}

// In the order of a kernel's work, the transposed operand behind the first.
std::vector<std::string> in_order(const std::set<std::string>& parts) {
  std::vector<std::string> out;
  for (const char* suffix : {"", "_transposed"})
    for (const char* stage : stage_names)
      if (parts.contains(std::string(stage) + suffix)) out.push_back(std::string(stage) + suffix);
  return out;
}

std::string plural(size_t n) { return fmt::format("{} case{}", n, n == 1 ? "" : "s"); }

}  // namespace

Coverage coverage_of(const Bundle& bundle, const std::vector<CandidateArray>& arrays) {
  std::map<size_t, std::set<std::string>> found;
  std::set<std::string> seen, lacking;
  for (const CandidateArray& a : arrays) {
    if (a.stage == input_stage) continue;
    found[a.case_index].insert(parse_array_name(a.golden).part);
    seen.insert(parse_array_name(a.golden).part);
  }
  std::map<std::string, Coverage::Missing> missing;
  for (const auto& [which, parts] : found)
    for (const std::string& part : parts_of(bundle.cases[which])) {
      Coverage::Missing& m = missing[part];
      m.part = part;
      ++m.of;
      if (parts.contains(part)) continue;
      ++m.cases;
      lacking.insert(part);
    }
  Coverage out = {bundle.cases.size(), found.size(), in_order(seen), {}};
  for (const std::string& part : in_order(lacking)) out.missing.push_back(missing[part]);
  return out;
}

std::string missing_text(const Coverage& c) {
  std::string text;
  for (const Coverage::Missing& m : c.missing) {
    add_word(text, m.part);
    if (m.cases < m.of) text += fmt::format(" ({} of {})", m.cases, plural(m.of));
  }
  return text;
}

std::string text_of(const Coverage& c) {
  const std::string text = fmt::format("{} of {} cases; stages {}", c.judged, c.cases, fmt::join(c.parts, " "));
  return c.missing.empty() ? text : text + "; not in the dump: " + missing_text(c);
}

std::vector<std::string> gaps(const Bundle& bundle, const Coverage& coverage, const std::vector<std::string>& required,
                              bool all_cases) {
  std::set<std::string> known;
  for (const Case& c : bundle.cases) known.merge(parts_of(c));
  std::vector<std::string> out;
  if (all_cases && coverage.judged < coverage.cases)
    out.push_back(
        fmt::format("--all-cases: {} of the bundle not in the dump", plural(coverage.cases - coverage.judged)));
  for (const std::string& word : required) {
    std::vector<std::string> accepted = in_order(known);
    accepted.insert(accepted.begin(), "all");
    accepted.emplace_back("padding");  // judged by whoever compares the elements
    if (word == "padding") continue;
    accepted_index("verify --require", word, accepted);
    if (word != "all" && std::find(coverage.parts.begin(), coverage.parts.end(), word) == coverage.parts.end()) {
      out.push_back(fmt::format("--require {}: not in the dump", word));
      continue;
    }
    for (const Coverage::Missing& m : coverage.missing)
      if (word == "all" || word == m.part)
        out.push_back(fmt::format("--require {}: {} not in the dump of {}", word, m.part, plural(m.cases)));
  }
  return out;
}

}  // namespace fp4::golden
