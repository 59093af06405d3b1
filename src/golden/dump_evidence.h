// A dump's arrays beside the golden ones, as integers that can be counted: how well a kernel explains the differences.
// Signs of zeros count apart, because kernels disagree about them more often than about anything else.
#pragma once

#include "src/golden/compare_arrays.h"
#include "src/golden/faulty_kernel.h"

namespace fp4::golden {

struct Score {
  uint64_t after = 0;                           // elements that a kernel of this kind would have dumped otherwise
  uint64_t after_zeros = 0;                     // of them: beyond the signs of zeros
  uint64_t found = 0, predicted = 0, seen = 0;  // differences: named rightly, made by the kernel, there
  Score& operator+=(const Score& o) {
    after += o.after, after_zeros += o.after_zeros, found += o.found, predicted += o.predicted, seen += o.seen;
    return *this;
  }
  bool explains() const { return after == 0; }
  bool explains_but_zeros() const { return after_zeros == 0; }
  // Harmonic mean of the shares of its differences that are seen and of the seen ones that it names.
  double f1() const {
    return predicted + seen == 0 ? 0.0 : 2.0 * static_cast<double>(found) / static_cast<double>(predicted + seen);
  }
};

// A part of a case, with what was dumped of it. A kernel explains the dump only if it explains the part, which is known
// in a thousandth of the time: the rows, or the tile of 128 x 128, in which most differs, the same tile of the
// transposed input, or the rows and, of a product, columns that differ most.
enum class Cut : uint8_t { rows, tile, turned_tile, corner };
struct Sample {
  Cut cut;
  Case c;
  CaseInputs in;
  Band band;
  Corner corner;
  std::vector<Evidence> evidence;  // of its own; each knows where it lies in the whole

  // Whether the part decides about a kernel, which stays as it is but for `turned_tile`.
  bool tells(Kernel& k) const;
};
// None where the case is small, or where its parts depend on each other.
std::vector<Sample> windows_of(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence);
std::optional<Sample> corner_of(const Case& c, const std::vector<Evidence>& evidence);

Score score(const Simulator& simulator, const Kernel& kernel, const std::vector<Evidence>& evidence);

}  // namespace fp4::golden
