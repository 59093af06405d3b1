// Which accident (accidents.h) or named policy, if any, explains ALL mismatches of a candidate? Accidents come first:
// the arrays show them. Then, cheapest first and within a budget of seconds, it recomputes the case under every order
// of codes and scales, every change of one axis (scale rule, tie rule, order of operations, policies, stochastic
// variant, adder
// ...), the words of other presets, then under up to three changes at once, starting from the best ones; and keeps what
// reproduces every array of the candidate in every bit. Where nothing does, what comes clearly nearer than the golden
// arrays themselves, by F1 of the differences that it names: a cause that adds differences, or touches none of the
// dump's arrays, is no cause. Signs of zeros are looked at last, and named as a cause of their own.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "src/golden/compare_arrays.h"
#include "src/golden/variants.h"

namespace fp4::golden {

struct Cause {
  Changes changes;  // in axis words: "scale_rule=rceil", "nibble_order=high_first", "accumulator=k64_rz"
  std::string detail;
  uint64_t before = 0, after = 0;  // elements that differ from the golden, and from a kernel with this cause
  double f1 = 0;                   // of the differences that it names, signs of zeros aside
  std::string words{};             // its --spec, where words alone say it: computed anew from them with the case's seed
  std::string text() const { return text_of(changes); }
  // Share of the differences that the cause removes, those that it would add taken off; 1 = all.
  double explains() const { return 1.0 - static_cast<double>(after) / static_cast<double>(before); }
};

struct Diagnosis {
  // Best first: those that explain all, else at most five that leave three quarters of the differences or fewer.
  std::vector<Cause> causes;
  bool explains_all = false;
  bool is_order = false;        // the best cause is the order of codes or scales alone: the values are right
  std::string first_diverging;  // stage, in the order of a kernel's work
  std::string summary;          // a sentence for people
  std::string tried;            // which kernels, in how long, and whether time ran out; "" where none had to be
};

// Called with the kernels that a search for causes has recomputed so far.
using Tried = std::function<void(size_t kernels)>;

// The candidate's arrays of one case, their comparisons and evidence (same order). `bundle` gives the inputs.
Diagnosis diagnose(const Bundle& bundle, const Case& c, const std::vector<CandidateArray>& arrays,
                   const std::vector<Comparison>& comparisons, const std::vector<ArrayPair>& evidence,
                   const std::string& backend, int threads, double seconds = HUGE_VAL, const Tried& tried = {});

}  // namespace fp4::golden
