// A dump's arrays beside the golden ones, as integers that can be counted: how well a kernel explains the differences.
// Signs of zeros count apart, because kernels disagree about them more often than about anything else.
#pragma once

#include "src/golden/compare_arrays.h"
#include "src/golden/faulty_kernel.h"

namespace fp4::golden {

std::vector<Evidence> gather(const Bundle& bundle, const Case& c, const std::vector<CandidateArray>& arrays);

struct Score {
  uint64_t after = 0;                           // elements that a kernel of this kind would have dumped otherwise
  uint64_t after_zeros = 0;                     // of them: beyond the signs of zeros
  uint64_t found = 0, predicted = 0, seen = 0;  // differences: named rightly, made by the kernel, there
  bool explains() const { return after == 0; }
  bool explains_but_zeros() const { return after_zeros == 0; }
  // Harmonic mean of the shares of its differences that are seen and of the seen ones that it names.
  double f1() const {
    return predicted + seen == 0 ? 0.0 : 2.0 * static_cast<double>(found) / static_cast<double>(predicted + seen);
  }
};

// Some rows of a case, or outputs, with what was dumped of them. A kernel explains the dump only if it explains these,
// which is known in a thousandth of the time.
struct Sample {
  Case c;
  CaseInputs in;
  Band band;
  Corner corner;
  std::vector<Evidence> evidence;
};
// The rows that differ most, of kernels that work row by row. Nothing where the case is small, or where no array that
// differs has its rows one after the other.
std::optional<Sample> band_of(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence);
// The rows and, of a product, columns that differ most. Nothing where they are most of a small case.
std::optional<Sample> corner_of(const Case& c, const std::vector<Evidence>& evidence);
// Whether a kernel gives these rows as it gives them in the whole.
bool works_by_rows(const Kernel& k);

// Of some elements of large arrays in plain order, for a kernel that differs from the case in the orders of its codes
// or scales alone; nothing of others.
std::optional<Score> order_score(const Case& c, const Kernel& kernel, const std::vector<Evidence>& evidence);

Score score(const Simulator& simulator, const Kernel& kernel, const std::vector<Evidence>& evidence);

}  // namespace fp4::golden
