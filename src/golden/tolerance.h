// A tolerance that whoever judges a kernel declares. Kernels whose 1/x is the device's approximate instruction take
// another code where a payload lies within that error of the boundary between two; such a dump is within the
// tolerance, never equal.
#pragma once

#include "src/golden/compare_arrays.h"
#include "src/golden/faulty_kernel.h"

namespace fp4::golden {

struct Tolerance {
  int reciprocal_ulp = 0;  // error of 1/6, of 1/S and of 1/(s*g), each; 0: none
  bool any() const { return reciprocal_ulp > 0; }
};

// "reciprocal_ulp=1"; Error, which `place` opens, for another word or a number that is not 1 to 8.
Tolerance tolerance_from_words(const std::string& place, const std::string& words);

// Elements of the dump that differ from the bundle's beyond the tolerance: scales that no 1/6 within it gives, codes
// that no reciprocals within it give under the dump's own scales (the bundle's where it has none), decoded values that
// are not those of the dump's codes and scales. Cases without reciprocals (gemm, arithmetic other than te and vllm,
// other rules than amax) have no tolerance: all that differ.
uint64_t beyond(const Tolerance& tolerance, const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence,
                const std::vector<Comparison>& comparisons);

}  // namespace fp4::golden
