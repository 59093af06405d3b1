// MXFP4 as NVFP4 without loss (NVIDIA Model-Optimizer, --cast_mxfp4_to_nvfp4): the same codes under a factor g = 2^m,
// and the scale 2^k of 32 elements as two E4M3 scales 2^(k - m), which E4M3 has from 2^-9 to 2^8. With m = k_max - 8
// that is every block whose k is at most 17 below the largest; codes of smaller ones are rounded under 2^-9.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "src/model/weight_reader.h"

namespace fp4 {

struct ModelPlan;

// How many blocks of a weight have the scale 2^k, of those with a code other than 0.
struct ScaleCounts {
  std::map<int, std::uint64_t> blocks = {};  // by k
  void add(const ScaleCounts& other);
  std::uint64_t all() const;
  std::uint64_t out_of_range(int power) const;  // under the factor 2^power
  int power() const;                            // m, at least -126: 2^m is no subnormal
};
ScaleCounts count_scales(WeightReader& reader);

// E8M0 scales of 32 elements as E4M3 scales of 16 under 2^power, and the packed codes rounded where they have to be.
void to_exact_nvfp4(int power, std::vector<std::uint8_t>& scales, std::vector<std::uint8_t>& codes);

// Carries the MXFP4 weights of a model that becomes NVFP4, where no words say how to quantise: weights of a group (set
// before) share the power. Notes say how many are exact, and of each other one how many blocks are rounded and what it
// costs. Where the scheme has no factor, a weight that does not fit is quantised as before.
void carry_exactly(ModelPlan& model);

}  // namespace fp4
