// What kernels do wrong most: not by another policy, but by accident. Rows that were never written, tiles that hold
// another tile's right answer, a factor left out, a part of K that is not summed. The arrays say it themselves, in
// milliseconds and with their places, before any policy is recomputed.
#pragma once

#include <optional>

#include "src/golden/diagnose.h"
#include "src/golden/dump_evidence.h"
#include "src/golden/places.h"

namespace fp4::golden {

// Zeros or NaN where nothing was written, rows, columns or tiles of another place, scales that are clamped: one finding
// for each array that differs, or none.
std::optional<Cause> array_accident(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence);

// Lines (rows, columns) or tiles of an array that hold the right answer of another place.
struct LineMove {
  std::string word;  // "rows_moved", "columns_moved", "tiles_moved"
  std::string says;  // "rows 96 to 127 are rows 0 to 31 of the answer"
};

// Nothing where few lines of few bits may be alike by chance.
std::optional<LineMove> line_move(const Evidence& e);

// Numbers that are the right ones times one factor: its name where the tensor scales or a power of two give it.
std::optional<Cause> factor_accident(const Case& c, const std::vector<Evidence>& evidence, const Simulator& simulator);

// The golden scale byte of all blocks that differ.
struct ScaleByte {
  uint32_t byte = 0;
  int64_t wrong = 0, right = 0;  // blocks that have it
  bool came_as_zeros = false;    // their elements
};
std::optional<ScaleByte> shared_scale_byte(const Case& c, const std::vector<Evidence>& evidence,
                                           const Simulator& simulator);

}  // namespace fp4::golden
