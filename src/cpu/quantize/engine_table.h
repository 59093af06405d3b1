// The engines that quantise an operand, in the order in which they are asked. `rows` leaves panels (16 rows) whose data
// it cannot decide to `lanes`; blocks that lanes cannot decide go one by one through include/fp4/block.h.
#pragma once

#include <iterator>

#include "fp4/axis.h"
#include "src/cpu/use_counter.h"

namespace fp4::cpu {

enum class QuantizeEngine : uint8_t { rows, shared, lanes };

inline constexpr AxisWord<QuantizeEngine> quantize_engine_table[] = {
    {QuantizeEngine::rows, "rows", "blocks of 16 and 32 along contiguous rows, to the layout of files"},
    {QuantizeEngine::shared, "shared", "blocks of several rows: squares, whole rows, whole tensors"},
    {QuantizeEngine::lanes, "lanes", "blocks of one row, or no scales: sixteen rows in sixteen lanes"},
};
static_assert(ids_are_indices(quantize_engine_table));

// Panels of all operands of this process since the last reset.
inline UseCounters<QuantizeEngine, std::size(quantize_engine_table)> quantize_uses;
using PanelCounts = decltype(quantize_uses)::Counts;

}  // namespace fp4::cpu
