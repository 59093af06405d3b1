// Scales that are right and stand in the wrong place: rolled or shifted by some blocks along a row, or by some rows.
// What reads a block's neighbour's scale dumps this: an index off by one, a pointer that was moved too early.
#pragma once

#include <optional>
#include <vector>

#include "src/golden/diagnose.h"

namespace fp4::golden {

/// The cause of a dump whose only differences lie in one array of scales, by rows. `golden` and `comparisons` belong to
/// `arrays`. Rolled: what leaves a row at its end comes in at its beginning. Shifted: the scales that come in are any.
std::optional<Cause> moved_scales(const Case& c, const std::vector<CandidateArray>& arrays,
                                  const std::vector<Array>& golden, const std::vector<Comparison>& comparisons);

}  // namespace fp4::golden
