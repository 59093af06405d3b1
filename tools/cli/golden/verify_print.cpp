#include "tools/cli/golden/verify_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/arith/spec_text.h"
#include "src/text/member_json.h"
#include "src/text/words.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;

ordered_json mismatch_json(const std::string& case_name, const golden::Comparison& c, const golden::Mismatch& m) {
  return joined_json({{{"case", case_name}},
                      FP4_NAMED(m.x, m.scale, m.payload, c.stage),
                      {{"array", c.golden},
                       {"index", m.index},
                       {"expected_bits", fmt::format("{:x}", m.expected_bits)},
                       {"got_bits", fmt::format("{:x}", m.got_bits)},
                       {"expected", m.expected},
                       {"got", m.got}}});
}

// The causes over all cases that differ, best first. A case that does not list a cause keeps all its differences.
ordered_json overall_diagnosis(const std::vector<CaseVerdict>& cases) {
  struct Total {
    golden::Cause cause;
    uint64_t removed = 0;
  };
  std::vector<Total> totals;
  uint64_t before = 0;
  for (const CaseVerdict& r : cases) {
    if (!r.order.empty() || r.is_within) continue;
    if (!r.diagnosis.causes.empty())
      before += r.diagnosis.causes[0].before;
    else if (!r.diagnosis.first_diverging.empty())
      before += r.mismatches();
    for (const golden::Cause& c : r.diagnosis.causes) {
      auto it =
          std::find_if(totals.begin(), totals.end(), [&](const Total& t) { return t.cause.changes == c.changes; });
      if (it == totals.end()) it = totals.insert(totals.end(), {c, 0});
      it->removed += c.before - c.after;
    }
  }
  std::stable_sort(totals.begin(), totals.end(), [](const Total& a, const Total& b) { return a.removed > b.removed; });
  auto list = ordered_json::array();
  for (Total& t : totals) {
    t.cause.before = before;
    t.cause.after = before - t.removed;
    list.push_back(
        joined_json({{{"cause", t.cause.text()}},
                     FP4_NAMED(t.cause.explains(), t.cause.f1, t.cause.before, t.cause.after, t.cause.detail),
                     {{"spec", t.cause.words.empty() ? ordered_json(nullptr) : ordered_json(t.cause.words)}}}));
  }
  return list;
}

ordered_json coverage_json(const golden::Coverage& c) {
  auto missing = ordered_json::array();
  for (const auto& m : c.missing) missing.push_back({{"stage", m.part}, {"cases", m.cases}, {"of", m.of}});
  return {{"cases", c.judged}, {"of", c.cases}, {"stages", c.parts}, {"not_in_the_dump", missing}};
}

std::string histogram_text(const golden::Comparison& c) {
  std::string text;
  size_t shown = 0;
  for (const auto& [d, n] : c.distance) {
    if (++shown > 6) {
      text += " ...";
      break;
    }
    add_word(text, fmt::format("{:+}: {}", d, n));
  }
  if (c.nan_against_number > 0) add_word(text, fmt::format("NaN: {}", c.nan_against_number));
  return text;
}

std::string table_text(const Table& table) { return format_table(table, table_width(), stdout_has_styles()); }

std::string wrapped(const std::string& text) {
  return fmt::format("{}\n", fmt::join(wrap_text(text, terminal_width()), "\n"));
}

// Broken at a terminal's width; one line elsewhere, for scripts.
std::string line_text(const std::string& text) { return stdout_is_terminal() ? wrapped(text) : text + "\n"; }

std::string case_text(const CaseVerdict& r) {
  std::string out = r.which->name + "\n";
  Table table = {{"array", ">compared", ">wrong", "distance: count", "where"}, {}};
  for (const golden::Comparison& c : r.comparisons)
    table.rows.push_back({c.golden, grouped(c.compared), grouped(c.mismatches), histogram_text(c),
                          c.shape_note.empty() ? c.where : c.shape_note});
  out += table_text(table);
  Table mismatches = {{"array", "index", ">expected", ">bits", ">got", ">bits"}, {}};
  Table payloads = {{"array", "index", ">x", ">scale", ">x/scale"}, {}};
  for (const golden::Comparison& c : r.comparisons)
    for (size_t i = 0; i < c.first.size() && i < 3; ++i) {
      const auto& m = c.first[i];
      const std::string index = fmt::format("[{}]", fmt::join(m.index, ", "));
      mismatches.rows.push_back(
          {c.golden, index, m.expected, fmt::format("{:x}", m.expected_bits), m.got, fmt::format("{:x}", m.got_bits)});
      if (m.x)
        payloads.rows.push_back({c.golden, index, fmt::format("{:.9g}", *m.x), fmt::format("{:.9g}", *m.scale),
                                 fmt::format("{:.9g}", *m.payload)});
    }
  if (!mismatches.rows.empty()) out += "\nfirst mismatches\n" + table_text(mismatches);
  if (!payloads.rows.empty()) out += "\nwhat was rounded there\n" + table_text(payloads);
  out += "\n" + line_text("diagnosis: " + r.diagnosis.summary);
  if (!r.diagnosis.tried.empty()) out += line_text("  " + r.diagnosis.tried);
  if (!r.diagnosis.explains_all && !r.diagnosis.causes.empty())
    out += "  what comes nearer, with the differences left:\n";
  for (const golden::Cause& c : r.diagnosis.causes)
    out += line_text(fmt::format("  {} -> {}  {}", grouped(c.before), grouped(c.after), c.text()));
  return out + "\n";
}

// "ignored: 36 inputs, as in the bundle (a.npy, b.npy, ...); notes.txt (--ignore)"
std::string ignored_text(const std::vector<golden::Ignored>& ignored) {
  std::string out;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const golden::Ignored& i : ignored) by_reason[i.reason].push_back(i.source);
  for (const auto& [reason, sources] : by_reason) {
    const size_t shown = std::min<size_t>(sources.size(), 3);
    const std::vector<std::string> some(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(shown));
    const std::string more = shown < sources.size() ? fmt::format(" and {} more", sources.size() - shown) : "";
    out += wrapped(fmt::format("ignored ({}): {}{}", reason, fmt::join(some, ", "), more));
  }
  return out;
}

std::string verdict_of(const golden::ProbeVerdict& v) {
  if (v.total == 0) return "unknown; no sums";
  if (!v.equals.empty()) return fmt::format("equals {}", fmt::join(v.equals, ", "));
  if (v.nearest.empty()) return "no adder takes these operands";
  const std::string changed = fmt::format("{} with {}", v.nearest, fmt::join(v.changes, ", "));
  if (v.is_explained()) return "is " + changed;
  return fmt::format("unknown; nearest is {} (sum {} differs)", v.changes.empty() ? v.nearest : changed,
                     v.first_difference + 1);
}

ordered_json json_of(const golden::ProbeSection& s, const golden::ProbeVerdict& v) {
  ordered_json out = {{"instruction", s.instruction}, {"equals", v.equals}};
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

ordered_json verdict_json(const Verdict& v) {
  ordered_json stages = ordered_json::object();
  auto first = ordered_json::array(), cases = ordered_json::array(), ignored = ordered_json::array();
  std::string diverging;
  for (const CaseVerdict& r : v.cases) {
    ordered_json arrays = ordered_json::array();
    for (const golden::Comparison& c : r.comparisons) {
      auto& stage = stages[c.stage];
      if (stage.is_null()) stage = {{"compared", uint64_t{0}}, {"mismatches", uint64_t{0}}};
      stage["compared"] = stage["compared"].get<uint64_t>() + c.compared;
      stage["mismatches"] = stage["mismatches"].get<uint64_t>() + (r.order.empty() ? c.mismatches : 0);
      for (const auto& m : r.order.empty() ? c.first : std::vector<golden::Mismatch>{})
        if (first.size() < 10) first.push_back(mismatch_json(r.which->name, c, m));
      ordered_json histogram = ordered_json::object();
      for (const auto& [d, n] : c.distance) histogram[fmt::format("{:+}", d)] = n;
      if (c.nan_against_number > 0) histogram["nan"] = c.nan_against_number;
      arrays.push_back({{"array", c.golden},
                        {"compared", c.compared},
                        {"mismatches", c.mismatches},
                        {"padding", c.padding},
                        {"distance", histogram},
                        {"where", c.shape_note.empty() ? c.where : c.shape_note}});
    }
    if (diverging.empty() && r.order.empty()) diverging = r.diagnosis.first_diverging;
    cases.push_back({{"case", r.which->name},
                     {"arrays", arrays},
                     {"within_tolerance", r.is_within},
                     {"order", r.order.empty() ? ordered_json(nullptr) : ordered_json(r.order)},
                     {"summary", r.diagnosis.summary}});
  }
  for (const golden::Ignored& i : v.ignored) ignored.push_back({{"source", i.source}, {"reason", i.reason}});
  return joined_json({{{"equal", v.mismatches == 0}},
                      FP4_NAMED(v.compared, v.mismatches, v.tolerated, v.orders, v.unjudged),
                      {{"padding", {{"not_zero", v.padding}, {"nan", v.padding_nan}}},
                       {"complete", v.gaps.empty()},
                       {"gaps", v.gaps},
                       {"coverage", coverage_json(v.coverage)},
                       {"ignored", ignored},
                       {"first", first},
                       {"stages", stages},
                       {"first_diverging_stage", diverging},
                       {"diagnosis", overall_diagnosis(v.cases)},
                       {"cases", cases}}});
}

std::string verdict_text(const Verdict& v) {
  std::string out;
  uint64_t shown = 0;
  for (const CaseVerdict& r : v.cases)
    if (r.mismatches() > 0 && r.order.empty() && !r.is_within && ++shown <= 5) out += case_text(r);
  if (v.wrong_cases > 5)
    out += fmt::format("and {} more cases (--case NAME, or --json for all)\n\n", v.wrong_cases - 5);
  out += ignored_text(v.ignored);
  for (const std::string& gap : v.gaps) out += line_text(gap);
  for (const std::string& order : v.orders) out += line_text("order found: " + order);
  if (v.unjudged > 0) out += fmt::format("not judged: {} codes of blocks whose scale is NaN\n", grouped(v.unjudged));
  if (v.padding > 0) {
    const std::string nans = v.padding_nan > 0 ? fmt::format(", {} of them NaN", grouped(v.padding_nan)) : "";
    out +=
        wrapped(fmt::format("not judged: {} elements of padding that are not zero{}; kernels leave it as it was "
                            "(--require padding fails on it)",
                            grouped(v.padding), nans));
  }
  const auto differing = [&](uint64_t count, uint64_t cases) {
    return fmt::format("{} of {} elements differ in {} case{}; judged", grouped(count), grouped(v.compared), cases,
                       cases == 1 ? "" : "s");
  };
  const std::string verdict =
      v.mismatches == 0 ? "equal in"
      : v.mismatches > v.tolerated
          ? "NOT equal: " + differing(v.mismatches, v.wrong_cases + v.cases_within)
          : "within the declared tolerance, not equal: " + differing(v.mismatches, v.cases_within);
  out += line_text((v.gaps.empty() ? "" : "NOT complete, ") + verdict + " " + golden::text_of(v.coverage));
  return out;
}

bool print_probe(const golden::ProbeDump& dump, bool as_json) {
  Table table = {{"instruction", ">sums", ">equal", "adder"}, {}};
  ordered_json sections = ordered_json::array();
  bool all = true;
  for (const golden::ProbeSection& s : dump.sections) {
    const golden::ProbeVerdict v = golden::judge_probe(s);
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
