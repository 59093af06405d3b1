// The gemm kernels of the vector backends, in the order in which they are asked for a tile (8 rows of A times 16 of B):
// the first one that neither declines the product nor finds the tile's data unfit takes it. Counts of what each was
// offered and took are kept for `--explain` and for the test that every kernel is reached.
#pragma once

#include <iterator>

#include "fp4/axis.h"
#include "src/cpu/use_counter.h"

namespace fp4::cpu {

enum class GemmKernel : uint8_t { level, pairs, groups, wide, int8, single, cut, terms, core, floats };

inline constexpr AxisWord<GemmKernel> gemm_kernel_table[] = {
    {GemmKernel::level, "level", "4-bit elements; scales near enough to be shifted into bytes: int32 over all of K"},
    {GemmKernel::pairs, "pairs", "6 and 8 bits in blocks of 32 under e8m0, fp32_block: 16-bit units, int32 dots"},
    {GemmKernel::groups, "groups", "4-bit elements; sums of groups as int32: dots times scales as 16-bit integers"},
    {GemmKernel::wide, "wide", "4-bit elements; sums of groups whose scales lie too far apart for integers: in fp64"},
    {GemmKernel::int8, "int8", "4-bit elements; fp32_block: int32 dots, scaled block by block"},
    {GemmKernel::single, "single", "4-bit elements; fused25_rz, fused35_rz where nothing is cut: int32 dots"},
    {GemmKernel::cut, "cut", "4-bit elements; fused35_rz in terms of 16 where something is: int32 dots, cut in fp64"},
    {GemmKernel::terms, "terms", "any blocked accumulator: term by term in fp64"},
    {GemmKernel::core, "core", "what is left, as sums that no fp64 holds: include/fp4, one output at a time"},
    {GemmKernel::floats, "floats", "no scales, or sums in natural order: decoded floats"},
};
static_assert(ids_are_indices(gemm_kernel_table));

// Tiles of all products of this process since the last reset.
inline UseCounters<GemmKernel, std::size(gemm_kernel_table)> gemm_uses;
using TileCounts = decltype(gemm_uses)::Counts;

}  // namespace fp4::cpu
