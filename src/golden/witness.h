// The shortest operands on which two accumulators, or two quantisation policies, differ: dot products that tell a user
// which model a chip follows.
#pragma once

#include <string>
#include <vector>

#include "src/golden/suite.h"

namespace fp4::golden {

struct WitnessRequest {
  std::string model_a, model_b;  // two accumulator names (or .json files), or two specs ("floor" ~ "scale_rule=floor")
  std::string words = "mxfp4";   // operands of accumulators; base of policy words
  int count = 10;                // witnesses wanted
  int64_t longest = 256;         // K at which the search ends; policies end at 64 at the latest
  int tries = 2048;              // dot products per K
};

struct Witness {
  std::vector<float> a, b;  // one row each; b empty for policies
  std::string answer_a, answer_b;
};

struct WitnessResult {
  bool is_accumulator = false;
  int64_t length = 0;   // K of the shortest; 0: none found
  int64_t longest = 0;  // K up to which was searched
  std::vector<Witness> witnesses;
  uint64_t tried = 0;       // the bound when none was found
  std::vector<Case> cases;  // as a golden bundle
};

// Throws Error for unknown words, and for an accumulator beside a policy.
WitnessResult find_witnesses(const WitnessRequest& request);

}  // namespace fp4::golden
