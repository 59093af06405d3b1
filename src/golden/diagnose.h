// Which named policy, if any, explains ALL mismatches of a candidate? Recomputes the case under every single change of
// an axis (scale rule, tie rule, order of operations, policies, stochastic variant, layout, accumulator ...), then
// under pairs of the most common ones, and keeps what reproduces every array of the candidate in every bit.
#pragma once

#include <string>
#include <vector>

#include "src/golden/compare.h"

namespace fp4::golden {

struct Cause {
  std::string cause;    // in axis words: "scale_rule=rceil", "nibble_order=high_first", "accumulator=k64_rz"
  double explains = 0;  // share of the mismatching elements that the cause reproduces; 1 = all, nothing else broken
  std::string detail;
};

struct Diagnosis {
  std::vector<Cause> causes;  // best first; those that explain all, else the nearest few
  bool explains_all = false;
  std::string first_diverging;  // stage, in the order of a kernel's work
  std::string summary;          // a sentence for people
};

// The candidate's arrays of one case and their comparisons (same order). `bundle` gives the inputs.
Diagnosis diagnose(const Bundle& bundle, const Case& c, const std::vector<CandidateArray>& arrays,
                   const std::vector<Comparison>& comparisons, const std::string& backend, int threads);

}  // namespace fp4::golden
