// Where something lies in a matrix, as people say it: contiguous ranges of rows and columns, their period, warps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fp4::golden {

// Elements of a matrix [rows, cols]; 1 where one is marked.
struct Marks {
  int64_t rows = 0, cols = 0;
  std::vector<uint8_t> at{};
};

struct Place {
  std::string text;         // "rows 32 to 63, columns 0 to 15"; "all" where every element is marked
  bool is_regular = false;  // every element that the text names is marked, and no other
};
Place place_of(const Marks& marks);

// Marked lines: "rows 32 to 63", "row 5", "rows 32 to 63 of every 128 (warp 1)"; "" where all are.
std::string ranges_text(const std::vector<uint8_t>& marked, const std::string& line);
std::string range_text(const std::string& line, int64_t first, int64_t count);

}  // namespace fp4::golden
