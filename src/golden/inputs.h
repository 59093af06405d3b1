// Inputs that find bugs: Gaussian data does not. All are functions of (kind, spec, shape, place), the same floats on
// every machine, so a bundle is made again from its manifest.
#pragma once

#include <vector>

#include "fp4/axis.h"
#include "fp4/spec.h"

namespace fp4::golden {

enum class InputKind : uint8_t { boundary, gaussian, heavy_tailed, subnormal, special };

struct InputKindInfo {
  InputKind id;
  const char* name;
  const char* doc;
};
inline constexpr InputKindInfo input_kind_table[] = {
    {InputKind::boundary, "boundary",
     "within 2 ulp of code boundaries and of stochastic thresholds, maxima within 4 ulp of binades and scale "
     "midpoints"},
    {InputKind::gaussian, "gaussian", "N(0,1) times 2^U(0,1) per 32"},
    {InputKind::heavy_tailed, "heavy_tailed", "N(0,1) times exp(3 N(0,1))"},
    {InputKind::subnormal, "subnormal", "the lowest 2^20 of the float range, both signs, zeros"},
    {InputKind::special, "special", "zeros, -0, infinities, NaN, both ends of the range among ordinary values"},
};
static_assert(ids_are_indices(input_kind_table));

// [rows, cols] floats as the quantiser of `spec` will get them. `place` is that of the element rounding (its draws
// decide where stochastic thresholds lie).
std::vector<float> make_input(InputKind kind, const QuantSpec& spec, int64_t rows, int64_t cols, RandomPlace place);

}  // namespace fp4::golden
