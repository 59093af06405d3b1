// What a kernel's dump is worth against a golden bundle: every array judged, every difference explained where it can
// be.
#pragma once

#include <string>
#include <vector>

#include "src/golden/coverage.h"
#include "src/golden/diagnose.h"

namespace fp4::tools {

struct VerifyJob {
  std::string golden, candidate;
  golden::CandidateOptions dump;
  std::vector<std::string> require;
  bool all_cases = false;
  std::string backend = "auto";
  int threads = 1;
};

struct CaseVerdict {
  const golden::Case* which = nullptr;
  std::vector<golden::CandidateArray> arrays;
  std::vector<golden::Comparison> comparisons;  // of the arrays, in their order
  golden::Diagnosis diagnosis;
  uint64_t mismatches() const;
};

struct Verdict {
  std::vector<CaseVerdict> cases;
  std::vector<golden::Ignored> ignored;  // with the inputs that are equal
  golden::Coverage coverage;
  std::vector<std::string> gaps;  // what was required and is not covered
  uint64_t compared = 0, mismatches = 0, wrong_cases = 0;
};

Verdict judge(const VerifyJob& job, const golden::Bundle& bundle);

}  // namespace fp4::tools
