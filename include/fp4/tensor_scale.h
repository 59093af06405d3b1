// The second scale level: one fp32 factor g for a tensor (NVFP4), held between sampling steps (2609.02846), one per
// row, or one per row and 128 elements along K. From the tensor amax A: g = fl32(A / fl32(target*M)), so that the
// largest block scale is about `target`; in `te` order S = min(fl32(target*M / A), FLT_MAX) and g = fl32(1/S).
#pragma once

#include "fp4/arithmetic.h"

namespace fp4 {

enum class TensorScale : uint8_t { none, current, hold, outer128, row };

struct TensorScaleInfo {
  TensorScale id;
  const char* name;
  const char* doc;
  const char* source;
  int extra_reads;    // whole-tensor passes for the amax ...
  bool is_amortised;  // ... shared by `hold_steps` steps
};

inline constexpr TensorScaleInfo tensor_scale_table[] = {
    {TensorScale::none, "none", "g = 1", "OCP MX 1.0", 0, false},
    {TensorScale::current, "current", "from this tensor's amax", "NVFP4, 2509.25149", 1, false},
    {TensorScale::hold, "hold", "amax sampled every hold_steps training steps", "2609.02846", 1, true},
    {TensorScale::outer128, "outer128", "one factor per row and 128 elements along K", "block-scaled FP8 training", 0,
     false},
    {TensorScale::row, "row", "one factor per row", "row-scaled NVFP4 of Transformer Engine, FlashInfer per token", 1,
     false},
};
static_assert(ids_are_indices(tensor_scale_table));

inline constexpr int outer_scale_width = 128;
// Factors of a row of `cols` elements under outer128.
FP4_HD constexpr int64_t outer_scale_cols(int64_t cols) { return (cols + outer_scale_width - 1) / outer_scale_width; }

// g and S from the amax A (finite, >= 0). `largest` is M. A = 0 gives 1.
FP4_HD constexpr TensorFactor tensor_factor(Arithmetic order, float amax, float target, float largest) {
  if (amax == 0.0f) return {};
  if (order == Arithmetic::te) {
    const float multiplier = at_most_largest(target * largest / amax);
    return {1.0f / multiplier, multiplier};
  }
  const float g = at_most_largest(amax / (target * largest));
  return {g == 0.0f ? power_of_two(-149) : g, 1.0f};
}

}  // namespace fp4
