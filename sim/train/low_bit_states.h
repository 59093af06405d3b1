// Decides: how an optimizer keeps its moments in 8 or 4 bits, and master weights in bf16. An update uses the new
// moments in fp32; what is kept for the next one is rounded.
//   8bit   blocks of 256 values, amax in fp32 (at least 1e-12), x / amax to the nearest of the 256 values of a
//          dynamic map (1511.04561; bitsandbytes 2110.02861, torchao): 0, 1 and 10^(i - 6) times the middles of 2^i
//          (second moment: 2^(i+1)) equal parts of .1 .. 1, i = 0 .. 6, the first moment's with both signs
//   4bit   blocks of 128, the first moment to the dynamic map of 16 values (i = 0 .. 2, 10^(i - 2)), the second to
//          k / 16, k = 1 .. 16 (2309.01507, torchao): it has no 0
// Halfway between two values of a map: the larger. Entries are computed in fp64 and rounded to fp32 once; torch's
// linspace in fp32 differs from them in the last place. Tensors below 4096 values stay in fp32, as in both libraries.
//   bf16 weights   w = the fp32 result with 16 random bits added to its low half, which is then cut: up with the
//          probability of what is cut (torchao's bf16_stochastic_round). Draw i of the step is that of weight i.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/rules/update_rules.h"

namespace fp4::sim {

inline constexpr int64_t smallest_low_bit_tensor = 4096;

/// Ascending.
std::vector<float> dynamic_map(bool has_sign, int bits);

/// The nearest value of an ascending map; halfway, the larger.
float nearest_of(const std::vector<float>& map, float x);

/// What is left of a moment once it has been stored; n values of one tensor.
void store_moment(Moments how, bool is_second, float* moment, int64_t n);

/// Bytes of a moment's value, with its share of the block's amax.
double moment_bytes(Moments how);

/// To the nearest bf16, ties to even; then, after each update, by the draws of `seed` and `step`.
void round_to_bf16(float* x, int64_t n);
void store_weights(float* w, int64_t n, uint64_t seed, uint32_t step);

}  // namespace fp4::sim
