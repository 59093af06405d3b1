#include "tools/cli/verdict.h"

namespace fp4::tools {
namespace {

// Inputs that the dump carries along must be the bundle's; they count as nothing that the kernel got right.
bool is_equal_input(const golden::CandidateArray& array, const golden::Comparison& c) {
  return array.stage == golden::input_stage && c.mismatches == 0;
}

}  // namespace

uint64_t CaseVerdict::mismatches() const {
  uint64_t count = 0;
  for (const golden::Comparison& c : comparisons) count += c.mismatches;
  return count;
}

Verdict judge(const VerifyJob& job, const golden::Bundle& bundle) {
  golden::Dump dump = golden::load_dump(bundle, job.candidate, job.dump);
  Verdict v;
  v.coverage = golden::coverage_of(bundle, dump.arrays);
  v.gaps = golden::gaps(bundle, v.coverage, job.require, job.all_cases);
  v.ignored = std::move(dump.ignored);
  for (size_t i = 0; i < bundle.cases.size(); ++i) {
    CaseVerdict r;
    r.which = &bundle.cases[i];
    for (golden::CandidateArray& array : dump.arrays) {
      if (array.case_index != i) continue;
      golden::Comparison c = golden::compare(*r.which, array, golden::load_array(bundle, *r.which, array.golden));
      if (is_equal_input(array, c)) {
        v.ignored.push_back({array.source, "an input, as in the bundle"});
        continue;
      }
      v.compared += c.compared;
      r.comparisons.push_back(std::move(c));
      r.arrays.push_back(std::move(array));
    }
    if (r.arrays.empty()) continue;
    if (r.mismatches() > 0) {
      v.mismatches += r.mismatches();
      ++v.wrong_cases;
      r.diagnosis = golden::diagnose(bundle, *r.which, r.arrays, r.comparisons, job.backend, job.threads);
    }
    v.cases.push_back(std::move(r));
  }
  return v;
}

}  // namespace fp4::tools
