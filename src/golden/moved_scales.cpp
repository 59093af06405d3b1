#include "src/golden/moved_scales.h"

#include <fmt/format.h>

#include <algorithm>

namespace fp4::golden {
namespace {

struct ScaleMatrix {
  const std::vector<uint32_t>& values;
  int64_t rows, cols;
  uint32_t at(int64_t r, int64_t k) const { return values[static_cast<size_t>(r * cols + k)]; }
};

// Whether got[r + down][k + right] is what expected[r][k] is; `rolls`: round the ends, too.
bool is_moved(const ScaleMatrix& expected, const ScaleMatrix& got, int64_t down, int64_t right, bool rolls) {
  for (int64_t r = 0; r < expected.rows; ++r)
    for (int64_t k = 0; k < expected.cols; ++k) {
      int64_t row = r + down, col = k + right;
      const bool is_inside = row >= 0 && row < got.rows && col >= 0 && col < got.cols;
      if (!is_inside && !rolls) continue;
      row = (row + got.rows) % got.rows, col = (col + got.cols) % got.cols;
      if (expected.at(r, k) != got.at(row, col)) return false;
    }
  return true;
}

}  // namespace

std::optional<Cause> moved_scales(const Case& c, const std::vector<CandidateArray>& arrays,
                                  const std::vector<Array>& golden, const std::vector<Comparison>& comparisons) {
  constexpr int64_t farthest = 4;
  std::optional<size_t> only;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (comparisons[i].mismatches == 0) continue;
    if (only || arrays[i].stage != "scales" || !comparisons[i].shape_note.empty()) return std::nullopt;
    only = i;
  }
  if (!only) return std::nullopt;
  const ArrayName name = parse_array_name(arrays[*only].golden);
  const std::vector<uint64_t>& shape = golden[*only].shape;
  if (name.scale_layout != ScaleLayout::linear || shape.size() != 2) return std::nullopt;
  const std::vector<uint32_t> right = elements_of(golden[*only], 0),
                              given = candidate_elements(c, arrays[*only], right.size());
  const ScaleMatrix expected{right, static_cast<int64_t>(shape[0]), static_cast<int64_t>(shape[1])},
      got{given, expected.rows, expected.cols};
  if (right.size() != given.size() || expected.rows * expected.cols != static_cast<int64_t>(right.size()))
    return std::nullopt;
  for (const bool rolls : {true, false})
    for (const bool along_rows : {true, false})
      for (int64_t by = 1; by <= farthest; ++by)
        for (const int64_t step : {by, -by}) {
          const int64_t length = along_rows ? expected.cols : expected.rows;
          // A shift leaves by/length of the scales free: of three quarters of them it is a finding.
          if (by >= length || (!rolls && 4 * by > length)) continue;
          if (!is_moved(expected, got, along_rows ? 0 : step, along_rows ? step : 0, rolls)) continue;
          const char* const word = rolls ? "rolled" : "shifted";
          const char* const what = along_rows ? "block" : "row";
          return Cause{{{"scales", fmt::format("{}:{:+}{}", word, step, what)}},
                       fmt::format("the scale of each block stands {} {}{} {}{}", by, what, by > 1 ? "s" : "",
                                   along_rows ? (step > 0 ? "to the right" : "to the left")
                                              : (step > 0 ? "further down" : "further up"),
                                   rolls ? "; those at the end come in at the other end" : ""),
                       comparisons[*only].mismatches,
                       0,
                       1.0};
        }
  return std::nullopt;
}

}  // namespace fp4::golden
