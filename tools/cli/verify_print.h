// The verdict of `fp4sim verify` as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "src/golden/coverage.h"
#include "src/golden/diagnose.h"

namespace fp4::tools {

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

void print_verdict(const Verdict& verdict);
void print_verdict_json(const Verdict& verdict);

}  // namespace fp4::tools
