// Which named policy, if any, explains ALL mismatches of a candidate? Recomputes the case under every single change of
// an axis (scale rule, tie rule, order of operations, policies, stochastic variant, layout, accumulator ...), then
// under pairs of the most common ones, and keeps what reproduces every array of the candidate in every bit; where
// nothing does, what comes clearly nearer than the golden arrays themselves.
#pragma once

#include <string>
#include <vector>

#include "src/golden/compare.h"

namespace fp4::golden {

struct Cause {
  std::string cause;  // in axis words: "scale_rule=rceil", "nibble_order=high_first", "accumulator=k64_rz"
  std::string detail;
  uint64_t before = 0, after = 0;  // elements that differ from the golden, and from a kernel with this cause
  // Share of the differences that the cause removes, those that it would add taken off; 1 = all.
  double explains() const { return 1.0 - static_cast<double>(after) / static_cast<double>(before); }
};

struct Diagnosis {
  // Best first: those that explain all, else at most five that leave three quarters of the differences or fewer.
  std::vector<Cause> causes;
  bool explains_all = false;
  std::string first_diverging;  // stage, in the order of a kernel's work
  std::string summary;          // a sentence for people
};

// The candidate's arrays of one case and their comparisons (same order). `bundle` gives the inputs.
Diagnosis diagnose(const Bundle& bundle, const Case& c, const std::vector<CandidateArray>& arrays,
                   const std::vector<Comparison>& comparisons, const std::string& backend, int threads);

}  // namespace fp4::golden
