// Inputs that find bugs: Gaussian data does not. All are functions of (kind, spec, shape, place), the same floats on
// every machine, so a bundle is made again from its manifest.
#pragma once

#include <vector>

#include "fp4/axis.h"
#include "fp4/spec.h"

namespace fp4::golden {

enum class InputKind : uint8_t { boundary, gaussian, heavy_tailed, subnormal, special, spread, cancelling };

inline constexpr AxisWord<InputKind> input_kind_table[] = {
    {InputKind::boundary, "boundary",
     "within 2 ulp of code boundaries and of stochastic thresholds, maxima within 4 ulp of binades and scale "
     "midpoints"},
    {InputKind::gaussian, "gaussian", "N(0,1) times 2^U(0,1) per 32"},
    {InputKind::heavy_tailed, "heavy_tailed", "N(0,1) times exp(3 N(0,1))"},
    {InputKind::subnormal, "subnormal", "the lowest 2^20 of the float range, both signs, zeros"},
    {InputKind::special, "special", "zeros, -0, infinities, NaN, both ends of the range among ordinary values"},
    {InputKind::spread, "spread", "N(0,1) times 2^-12 .. 2^12 per 16: sums in which accumulators differ"},
    {InputKind::cancelling, "cancelling",
     "rows whose large products cancel and leave those of values down to 2^-31 of theirs; half of them near 2^-68"},
};
static_assert(ids_are_indices(input_kind_table));

// Types of a kernel's inputs and products; the arrays of a bundle are float32 that one of them holds exactly.
enum class RealType : uint8_t { fp32, bf16, fp16 };

struct RealTypeInfo {
  RealType id;
  const char* name;
  int digits;             // of the significand
  int smallest_exponent;  // of a normal number
  double largest;
};
inline constexpr RealTypeInfo real_type_table[] = {{RealType::fp32, "fp32", 24, -126, 0x1.FFFFFEp127},
                                                   {RealType::bf16, "bf16", 8, -126, 0x1.FEp127},
                                                   {RealType::fp16, "fp16", 11, -14, 65504.0}};
static_assert(ids_are_indices(real_type_table));

// x rounded to nearest even, subnormals kept; beyond the largest value Inf.
float rounded_to(RealType type, float x);
// The same of float32 words in place.
void round_words(RealType type, std::vector<uint32_t>& words);

// [rows, cols] floats as the quantiser of `spec` will get them. `place` is that of the element rounding (its draws
// decide where stochastic thresholds lie).
std::vector<float> make_input(InputKind kind, const QuantSpec& spec, int64_t rows, int64_t cols, RandomPlace place);

}  // namespace fp4::golden
