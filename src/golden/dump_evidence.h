// A dump's arrays beside the golden ones, as integers that can be counted: how well a kernel explains the differences.
// Signs of zeros count apart, because kernels disagree about them more often than about anything else.
#pragma once

#include "src/golden/compare_arrays.h"
#include "src/golden/faulty_kernel.h"

namespace fp4::golden {

struct Evidence {
  std::string array;
  Elements expected, got;  // codes of blocks with a NaN scale, and padding, may be anything
  RealType type = RealType::fp32;
  uint32_t zero = 0;  // the other zero of this array: code 8 of e2m1, bits of -0; 0 where there is none
};

// NaNs are one value. Arrays of another kind than the golden one have no elements: no cause makes codes of numbers.
std::vector<Evidence> gather(const Case& c, const std::vector<CandidateArray>& arrays, const std::vector<Array>& golden,
                             const Simulator& simulator);

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

// Some rows of a case with what was dumped of them. A kernel that works row by row explains the dump only if it
// explains these, which is known in a thousandth of the time.
struct Sample {
  Case c;
  CaseInputs in;
  Band band;
  Corner corner;  // of a product
  std::vector<Evidence> evidence;
};
// Nothing where the case is small, or where no array that differs has its rows one after the other.
std::optional<Sample> sample_of(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence);
// Whether a kernel gives these rows as it gives them in the whole.
bool works_by_rows(const Kernel& k);

Score score(const Simulator& simulator, const Kernel& kernel, const std::vector<Evidence>& evidence);

}  // namespace fp4::golden
