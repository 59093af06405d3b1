// Lines (rows, columns) or tiles of an array that hold the right answer of another place.
#pragma once

#include <optional>
#include <string>

#include "src/golden/dump_evidence.h"

namespace fp4::golden {

struct LineMove {
  std::string word;  // "rows_moved", "columns_moved", "tiles_moved"
  std::string says;  // "rows 96 to 127 are rows 0 to 31 of the answer"
};

// Nothing where few lines of few bits may be alike by chance.
std::optional<LineMove> line_move(const Evidence& e);

}  // namespace fp4::golden
