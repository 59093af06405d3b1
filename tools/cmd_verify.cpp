// `fp4sim verify`: is a kernel's dump right, and if not, what does it do instead?
#include <fmt/format.h>

#include <algorithm>

#include "src/error.h"
#include "src/golden/diagnose.h"
#include "tools/options.h"
#include "tools/table_print.h"

namespace fp4::tools {
namespace {

struct VerifyOptions {
  std::string golden, candidate, case_name, accumulator = "fp32_block";
  std::vector<std::string> stages;
  bool json = false;
  BackendOptions backend;
  InputOptions input;
};

struct CaseResult {
  const golden::Case* which = nullptr;
  std::vector<golden::CandidateArray> arrays;
  std::vector<golden::Comparison> comparisons;
  golden::Diagnosis diagnosis;
};

std::vector<CaseResult> judge(const VerifyOptions& o, const golden::Bundle& bundle) {
  const auto found =
      golden::load_candidate(bundle, o.candidate, {o.stages, o.case_name, o.accumulator, o.input.open_options()});
  std::vector<CaseResult> results;
  for (size_t i = 0; i < bundle.cases.size(); ++i) {
    CaseResult r;
    r.which = &bundle.cases[i];
    bool mismatched = false;
    for (const auto& array : found) {
      if (array.case_index != i) continue;
      r.comparisons.push_back(golden::compare(*r.which, array, golden::load_array(bundle, *r.which, array.golden)));
      mismatched = mismatched || r.comparisons.back().mismatches > 0;
      r.arrays.push_back(array);
    }
    if (r.arrays.empty()) continue;
    if (mismatched) {
      r.diagnosis =
          golden::diagnose(bundle, *r.which, r.arrays, r.comparisons, o.backend.backend, o.backend.thread_count());
    }
    results.push_back(std::move(r));
  }
  return results;
}

nlohmann::ordered_json mismatch_json(const std::string& case_name, const golden::Comparison& c,
                                     const golden::Mismatch& m) {
  return {{"case", case_name},
          {"stage", c.stage},
          {"array", c.golden},
          {"index", m.index},
          {"expected_bits", fmt::format("{:x}", m.expected_bits)},
          {"got_bits", fmt::format("{:x}", m.got_bits)},
          {"expected", m.expected},
          {"got", m.got}};
}

// The causes that explain every mismatching case, best first; else the single cases' causes with the share of the
// mismatching cases that they explain.
nlohmann::ordered_json overall_diagnosis(const std::vector<CaseResult>& results) {
  struct Total {
    golden::Cause cause;
    double sum = 0;
    size_t order = 0;
  };
  std::vector<Total> totals;
  double wrong_cases = 0;
  for (const CaseResult& r : results) {
    if (r.diagnosis.first_diverging.empty()) continue;
    ++wrong_cases;
    for (const golden::Cause& c : r.diagnosis.causes) {
      auto it = std::find_if(totals.begin(), totals.end(), [&](const Total& t) { return t.cause.cause == c.cause; });
      if (it == totals.end()) it = totals.insert(totals.end(), {c, 0, totals.size()});
      it->sum += c.explains;
    }
  }
  std::stable_sort(totals.begin(), totals.end(), [](const Total& a, const Total& b) { return a.sum > b.sum; });
  auto list = nlohmann::ordered_json::array();
  for (const Total& t : totals) {
    list.push_back({{"cause", t.cause.cause}, {"explains", t.sum / wrong_cases}, {"detail", t.cause.detail}});
  }
  return list;
}

void print_results_json(const std::vector<CaseResult>& results, uint64_t compared, uint64_t mismatches) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::object();
  auto first = nlohmann::ordered_json::array();
  auto cases = nlohmann::ordered_json::array();
  std::string diverging;
  for (const CaseResult& r : results) {
    nlohmann::ordered_json arrays = nlohmann::ordered_json::array();
    for (const golden::Comparison& c : r.comparisons) {
      auto& stage = stages[c.stage];
      if (stage.is_null()) stage = {{"compared", uint64_t{0}}, {"mismatches", uint64_t{0}}};
      stage["compared"] = stage["compared"].get<uint64_t>() + c.compared;
      stage["mismatches"] = stage["mismatches"].get<uint64_t>() + c.mismatches;
      for (const auto& m : c.first) {
        if (first.size() < 10) first.push_back(mismatch_json(r.which->name, c, m));
      }
      nlohmann::ordered_json histogram = nlohmann::ordered_json::object();
      for (const auto& [d, n] : c.distance) histogram[fmt::format("{:+}", d)] = n;
      if (c.nan_against_number > 0) histogram["nan"] = c.nan_against_number;
      arrays.push_back({{"array", c.golden},
                        {"compared", c.compared},
                        {"mismatches", c.mismatches},
                        {"distance", histogram},
                        {"where", c.shape_note.empty() ? c.where : c.shape_note}});
    }
    if (diverging.empty()) diverging = r.diagnosis.first_diverging;
    cases.push_back({{"case", r.which->name}, {"arrays", arrays}, {"summary", r.diagnosis.summary}});
  }
  print_json({{"equal", mismatches == 0},
              {"compared", compared},
              {"mismatches", mismatches},
              {"first", first},
              {"stages", stages},
              {"first_diverging_stage", diverging},
              {"diagnosis", overall_diagnosis(results)},
              {"cases", cases}});
}

void print_case(const CaseResult& r) {
  fmt::print("{}\n", r.which->name);
  Table table = {{{"array"}, {"compared", Align::right}, {"wrong", Align::right}, {"distance: count"}, {"where"}}, {}};
  for (const golden::Comparison& c : r.comparisons) {
    std::string histogram;
    size_t shown = 0;
    for (const auto& [d, n] : c.distance) {
      if (++shown > 6) {
        histogram += " ...";
        break;
      }
      histogram += fmt::format("{}{:+}: {}", histogram.empty() ? "" : ", ", d, n);
    }
    if (c.nan_against_number > 0)
      histogram += fmt::format("{}NaN: {}", histogram.empty() ? "" : ", ", c.nan_against_number);
    table.rows.push_back({c.golden, grouped(static_cast<int64_t>(c.compared)),
                          grouped(static_cast<int64_t>(c.mismatches)), histogram,
                          c.shape_note.empty() ? c.where : c.shape_note});
  }
  print_table(table);
  Table mismatches = {{{"array"},
                       {"index"},
                       {"expected", Align::right},
                       {"bits", Align::right},
                       {"got", Align::right},
                       {"bits", Align::right}},
                      {}};
  for (const golden::Comparison& c : r.comparisons) {
    for (size_t i = 0; i < c.first.size() && i < 3; ++i) {
      const auto& m = c.first[i];
      mismatches.rows.push_back({c.golden, fmt::format("[{}]", fmt::join(m.index, ", ")), m.expected,
                                 fmt::format("{:x}", m.expected_bits), m.got, fmt::format("{:x}", m.got_bits)});
    }
  }
  if (!mismatches.rows.empty()) {
    fmt::print("\nfirst mismatches\n");
    print_table(mismatches);
  }
  if (!r.diagnosis.summary.empty()) {
    fmt::print("\ndiagnosis: {}\n", r.diagnosis.summary);
    for (const golden::Cause& c : r.diagnosis.causes) {
      fmt::print("  {:>5.1f} %  {}\n", 100 * c.explains, c.cause);
    }
  }
  fmt::print("\n");
}

void run_verify(const VerifyOptions& o, Invocation& invocation) {
  const golden::Bundle bundle = golden::open_bundle(o.golden);
  const std::vector<CaseResult> results = judge(o, bundle);
  uint64_t compared = 0, mismatches = 0, wrong_cases = 0;
  for (const CaseResult& r : results) {
    uint64_t here = 0;
    for (const auto& c : r.comparisons) {
      compared += c.compared;
      here += c.mismatches;
    }
    mismatches += here;
    wrong_cases += here > 0 ? 1 : 0;
  }
  if (mismatches > 0) invocation.exit_code = 1;
  if (o.json) return print_results_json(results, compared, mismatches);
  uint64_t shown = 0;
  for (const CaseResult& r : results) {
    const bool wrong = !r.diagnosis.first_diverging.empty();
    if (wrong && ++shown <= 5) print_case(r);
  }
  if (wrong_cases > 5) fmt::print("and {} more cases (--case NAME, or --json for all)\n\n", wrong_cases - 5);
  fmt::print("{}: {} of {} elements differ in {} of {} cases\n", mismatches == 0 ? "equal" : "NOT equal",
             grouped(static_cast<int64_t>(mismatches)), grouped(static_cast<int64_t>(compared)), wrong_cases,
             results.size());
}

void add_verify(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<VerifyOptions>();
  app.add_option("--golden", o->golden, "A bundle of `fp4sim golden make`")->required()->type_name("DIR");
  app.add_option("--candidate", o->candidate, "The kernel's dump: folder, .npy, .npz, .safetensors or raw .bin")
      ->required()
      ->type_name("PATH");
  app.add_option("--stage", o->stages, "Judge only these: scales tensor_scale codes dequantized output")
      ->type_name("NAME");
  app.add_option("--case", o->case_name, "The case that the candidate is of, where its name does not say")
      ->type_name("NAME");
  app.add_option("--accumulator", o->accumulator, "Golden output for an array named `output` (default fp32_block)")
      ->type_name("NAME");
  add_input_options(app, o->input);
  add_backend_options(app, o->backend);
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_verify(*o, invocation); });
  set_example(app, "fp4sim verify --golden golden --candidate my_kernel_dump");
}

}  // namespace

Command command_verify() { return {"verify", "Judge a kernel's dump and name what it does instead", add_verify}; }

}  // namespace fp4::tools
