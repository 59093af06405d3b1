#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "src/golden/compare_arrays.h"

namespace fp4::golden {
namespace {

struct Run {
  int64_t first, count;
};

std::vector<Run> runs_of(const std::vector<uint8_t>& marked) {
  std::vector<Run> runs;
  for (size_t i = 0; i < marked.size(); ++i) {
    if (marked[i] == 0) continue;
    if (i == 0 || marked[i - 1] == 0) runs.push_back({static_cast<int64_t>(i), 0});
    ++runs.back().count;
  }
  return runs;
}

// The distance at which one run comes again from the first to the last line; 0 where none does.
int64_t period_of(const std::vector<Run>& runs, int64_t lines) {
  if (runs.size() < 2) return 0;
  const int64_t period = runs[1].first - runs[0].first, last = runs.back().first;
  for (size_t i = 0; i < runs.size(); ++i) {
    const int64_t first = runs[0].first + static_cast<int64_t>(i) * period;
    if (runs[i].first != first || runs[i].count != std::min(runs[0].count, lines - first)) return 0;
  }
  return runs[0].first < period && last + period >= lines ? period : 0;
}

// A warp has 32 rows of a tile of 128.
std::string warp_text(const std::string& line, Run run, int64_t tile) {
  if (line != "row" || run.count != 32 || run.first % 32 != 0 || tile % 128 != 0) return "";
  return fmt::format(" (warp {})", run.first / 32 % 4);
}

std::string text_of(const std::string& rows, const std::string& cols) {
  return rows.empty() && cols.empty() ? "all" : rows + (rows.empty() || cols.empty() ? "" : ", ") + cols;
}

}  // namespace

std::string range_text(const std::string& line, int64_t first, int64_t count) {
  return count == 1 ? fmt::format("{} {}", line, first) : fmt::format("{}s {} to {}", line, first, first + count - 1);
}

std::string ranges_text(const std::vector<uint8_t>& marked, const std::string& line) {
  const auto lines = static_cast<int64_t>(marked.size());
  const std::vector<Run> runs = runs_of(marked);
  if (runs.empty() || runs[0].count == lines) return "";
  if (runs.size() == 1) return range_text(line, runs[0].first, runs[0].count) + warp_text(line, runs[0], lines);
  if (const int64_t period = period_of(runs, lines); period > 0)
    return range_text(line, runs[0].first, runs[0].count) + fmt::format(" of every {}", period) +
           warp_text(line, runs[0], period);
  constexpr size_t most = 4;
  std::string text = line + "s";
  for (size_t i = 0; i < std::min(runs.size(), most); ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : " ", runs[i].first);
    if (runs[i].count > 1) text += fmt::format(" to {}", runs[i].first + runs[i].count - 1);
  }
  return text + (runs.size() > most ? fmt::format(" and {} ranges more", runs.size() - most) : "");
}

Place place_of(const Marks& m) {
  const auto width = static_cast<size_t>(m.cols);
  std::map<std::string_view, std::vector<uint8_t>> rows_of_pattern;  // lines that are marked alike
  std::vector<uint8_t> all_rows(static_cast<size_t>(m.rows), 0), all_cols(width, 0);
  constexpr size_t most = 4;
  for (size_t r = 0; r < all_rows.size(); ++r) {
    const std::string_view row(reinterpret_cast<const char*>(&m.at[r * width]), width);
    if (row.find('\1') == std::string_view::npos) continue;
    all_rows[r] = 1;
    for (size_t c = 0; c < width; ++c) all_cols[c] |= m.at[r * width + c];
    if (rows_of_pattern.size() > most) continue;
    std::vector<uint8_t>& rows = rows_of_pattern[row];
    rows.resize(all_rows.size());
    rows[r] = 1;
  }
  if (rows_of_pattern.size() > most) return {text_of(ranges_text(all_rows, "row"), ranges_text(all_cols, "column"))};
  std::vector<std::string> parts;
  for (const auto& [pattern, rows] : rows_of_pattern)
    parts.push_back(text_of(ranges_text(rows, "row"), ranges_text({pattern.begin(), pattern.end()}, "column")));
  std::sort(parts.begin(), parts.end());
  return {fmt::format("{}", fmt::join(parts, "; ")), !parts.empty()};
}

}  // namespace fp4::golden
