// The engines that quantise an operand, in the order in which they are asked. `rows` leaves panels (16 rows) whose data
// it cannot decide to `lanes`; blocks that lanes cannot decide go one by one through include/fp4/block.h.
#pragma once

#include <array>
#include <iterator>

#include "fp4/axis.h"
#include "src/cpu/use_counter.h"

namespace fp4::cpu {

enum class QuantizeEngine : uint8_t { rows, shared, lanes };

struct QuantizeEngineInfo {
  QuantizeEngine id;
  const char* name;
  const char* doc;
};

inline constexpr QuantizeEngineInfo quantize_engine_table[] = {
    {QuantizeEngine::rows, "rows", "blocks of 16 and 32 along contiguous rows, to the layout of files"},
    {QuantizeEngine::shared, "shared", "blocks of several rows: squares, whole rows, whole tensors"},
    {QuantizeEngine::lanes, "lanes", "blocks of one row, or no scales: sixteen rows in sixteen lanes"},
};
static_assert(ids_are_indices(quantize_engine_table));

using PanelCounts = std::array<UseCount, std::size(quantize_engine_table)>;

// Of all operands of this process since the last reset.
PanelCounts panel_counts();
void reset_panel_counts();

void count_panels(QuantizeEngine engine, int64_t offered, int64_t taken);
void count_declined(QuantizeEngine engine, const char* reason);

}  // namespace fp4::cpu
