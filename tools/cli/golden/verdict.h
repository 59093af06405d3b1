// What a kernel's dump is worth against a golden bundle: every array judged, every difference explained where it can
// be.
#pragma once

#include <string>
#include <vector>

#include "src/golden/candidate.h"
#include "src/golden/compare_arrays.h"
#include "src/golden/diagnose.h"

namespace fp4::tools {

struct VerifyJob {
  std::string golden, candidate;
  golden::CandidateOptions dump;
  std::vector<std::string> require;
  bool all_cases = false;
  golden::Tolerance tolerance;
  std::string backend = "auto";
  int threads = 1;
  double seconds = 20;       // that a search for a policy may take
  golden::Tried tried = {};  // called on the way of a search for causes
};

// What a dump is judged under beside the bundle: orders of codes and scales, a tolerance, the random bits that the
// kernel took, the epilogue of its products. As words and files, for the command line and for Python.
struct VerifyWords {
  std::string nibbles, scale_layout, tolerance;  // "": none was said
  std::string random_words, c, bias;             // files
  float alpha = 1, beta = 0;
  std::string output = "fp32", activation = "none";
};

// Into the job, and the random bits and the epilogue into the bundle's cases.
void say(const VerifyWords& words, VerifyJob& job, golden::Bundle& bundle);

struct CaseVerdict {
  const golden::Case* which = nullptr;
  std::vector<golden::CandidateArray> arrays;
  std::vector<golden::Comparison> comparisons;  // of the arrays, in their order
  std::vector<golden::ArrayPair> evidence;      // while the case is judged
  golden::Diagnosis diagnosis;
  bool is_within = false;  // of the declared tolerance
  std::string order;       // in which codes and scales lie, where nobody said one and the values are right
  uint64_t mismatches() const;
};

struct Verdict {
  std::vector<CaseVerdict> cases;
  std::vector<golden::Ignored> ignored;  // with the inputs that are equal
  golden::Coverage coverage;
  std::vector<std::string> gaps;  // what was required and is not covered
  uint64_t compared = 0, mismatches = 0, wrong_cases = 0, unjudged = 0;
  uint64_t padding = 0, padding_nan = 0;     // elements that a layout pads and a dump does not leave zero
  uint64_t tolerated = 0, cases_within = 0;  // of the mismatches; declared, so no failure, but not equal
  bool is_refused() const { return mismatches > tolerated || !gaps.empty(); }
  std::vector<std::string> orders;  // that were found, each once
};

// Error where a case's epilogue does not fit it.
Verdict judge(const VerifyJob& job, const golden::Bundle& bundle);

}  // namespace fp4::tools
