#include "src/golden/line_moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "src/golden/places.h"

namespace fp4::golden {
namespace {

using Hashes = std::vector<uint64_t>;

// Of rows, or of columns.
Hashes line_hashes(const Elements& e, int64_t rows, int64_t cols, bool by_rows) {
  Hashes out(static_cast<size_t>(by_rows ? rows : cols), 0xCBF29CE484222325u);
  for (size_t i = 0, r = 0; r < static_cast<size_t>(rows); ++r)
    for (size_t c = 0; c < static_cast<size_t>(cols); ++c, ++i) {
      uint64_t& h = out[by_rows ? r : c];
      h = (h ^ e[i]) * 0x9E3779B97F4A7C15u;
      h ^= h >> 29;
    }
  return out;
}

struct Segment {
  int64_t to, from, count;
};

class LineMap {
 public:
  LineMap(const Hashes& expected, const Hashes& got, const char* line, double bits)
      : expected_(expected), got_(got), line_(line), bits_(bits), lines_(static_cast<int64_t>(expected.size())) {
    for (int64_t i = 0; i < lines_; ++i) {
      homes_[expected_[index(i)]].push_back(i);
      wrong_ += expected_[index(i)] != got_[index(i)] ? 1 : 0;
    }
  }

  std::optional<std::string> text() const {
    if (wrong_ == 0 || lines_ < 2) return std::nullopt;
    std::string none;
    const std::vector<Segment> segments = found_segments(none);
    if (segments.size() <= 4 && says_enough(segments)) {
      std::string out;
      for (const Segment& s : segments)
        out += fmt::format("{}{} {} {} of the answer", out.empty() ? "" : "; ", range_text(line_, s.to, s.count),
                           s.count == 1 ? "is" : "are", range_text(line_, s.from, s.count));
      return out + (none.empty() ? "" : "; " + none + " hold none of it");
    }
    if (bits_ * static_cast<double>(wrong_) < 64) return std::nullopt;
    return pattern();
  }

 private:
  static size_t index(int64_t i) { return static_cast<size_t>(i); }

  // The longest runs of lines that stand one after the other in the answer, too.
  std::vector<Segment> found_segments(std::string& none) const {
    std::vector<Segment> out;
    std::vector<uint8_t> unknown(expected_.size(), 0);
    for (int64_t i = 0; i < lines_ && out.size() <= 4;) {
      Segment best = {i, 0, 0};
      const auto homes = homes_.find(got_[index(i)]);
      const bool is_wrong = expected_[index(i)] != got_[index(i)];
      for (size_t h = 0; is_wrong && homes != homes_.end() && h < std::min<size_t>(homes->second.size(), 64); ++h) {
        const int64_t from = homes->second[h];
        int64_t n = 0;
        while (i + n < lines_ && from + n < lines_ && got_[index(i + n)] == expected_[index(from + n)] &&
               expected_[index(i + n)] != got_[index(i + n)])
          ++n;
        if (n > best.count) best = {i, from, n};
      }
      if (best.count > 0)
        out.push_back(best);
      else if (is_wrong)
        unknown[index(i)] = 1;
      i += std::max<int64_t>(best.count, 1);
    }
    if (std::find(unknown.begin(), unknown.end(), 1) != unknown.end()) none = ranges_text(unknown, line_);
    return out;
  }

  // Three quarters of what is wrong, and more than chance gives.
  bool says_enough(const std::vector<Segment>& segments) const {
    int64_t moved = 0;
    for (const Segment& s : segments) moved += s.count;
    const double cost = static_cast<double>(segments.size()) * 2 * std::log2(static_cast<double>(lines_)) + 24;
    return 4 * moved >= 3 * wrong_ && 4 * (wrong_ - moved) <= lines_ && bits_ * static_cast<double>(moved) > cost;
  }

  bool holds(const std::function<int64_t(int64_t)>& from) const {
    for (int64_t i = 0; i < lines_; ++i) {
      const int64_t home = from(i);
      if (home < 0 || home >= lines_ || got_[index(i)] != expected_[index(home)]) return false;
    }
    return true;
  }

  // An order that comes again: p x q lines read as q x p, or any of at most 64 lines; or one of all lines.
  std::optional<std::string> pattern() const {
    for (int64_t period = 4; period <= lines_; period = period * 2 > lines_ && period < lines_ ? lines_ : period * 2) {
      if (lines_ % period != 0) continue;
      for (int64_t p = 2; p < period; ++p) {
        if (period % p != 0) continue;
        const int64_t q = period / p;
        if (holds([&](int64_t i) { return i - i % period + i % period % p * q + i % period / p; }))
          return fmt::format("{}s stand in another order: of every {}, {} x {} are read as {} x {}", line_, period, p,
                             q, q, p);
      }
    }
    for (int64_t period = 2; 2 * period <= lines_ && period <= 64; ++period) {
      if (lines_ % period != 0) continue;
      std::vector<int64_t> order;
      for (int64_t i = 0; i < period; ++i)
        for (int64_t j = 0; j < period; ++j)
          if (got_[index(i)] == expected_[index(j)]) {
            order.push_back(j);
            break;
          }
      if (static_cast<int64_t>(order.size()) == period &&
          holds([&](int64_t i) { return i - i % period + order[index(i % period)]; }))
        return fmt::format("{}s stand in another order: of every {}, {}", line_, period, fmt::join(order, " "));
    }
    if (holds([&](int64_t i) { return lines_ - 1 - i; })) return fmt::format("{}s stand in reverse order", line_);
    if (holds([](int64_t) { return 0; })) return fmt::format("every {0} is {0} 0 of the answer", line_);
    return any_order();
  }

  // Every line is another line of the answer, each once.
  std::optional<std::string> any_order() const {
    std::vector<int64_t> homes;
    for (int64_t i = 0; i < lines_; ++i) {
      const auto home = homes_.find(got_[index(i)]);
      if (home == homes_.end() || home->second.size() != 1) return std::nullopt;
      homes.push_back(home->second[0]);
    }
    const std::vector<int64_t> first(homes.begin(), homes.begin() + std::min<int64_t>(lines_, 8));
    std::sort(homes.begin(), homes.end());
    if (lines_ < 8 || std::adjacent_find(homes.begin(), homes.end()) != homes.end()) return std::nullopt;
    return fmt::format("{}s stand in another order: {} of the answer, and so on", line_, fmt::join(first, " "));
  }

  const Hashes &expected_, &got_;
  const char* line_;
  double bits_;  // of a line
  int64_t lines_, wrong_ = 0;
  std::unordered_map<uint64_t, std::vector<int64_t>> homes_;
};

// Tiles of one size that hold other tiles.
std::optional<std::string> tile_text(const Elements& expected, const Elements& got, int64_t rows, int64_t cols,
                                     int64_t high, int64_t wide) {
  const auto is_at = [&](const Elements& a, int64_t ra, int64_t ca, int64_t rb, int64_t cb) {
    for (int64_t r = 0; r < high; ++r)
      if (!std::equal(a.begin() + (ra + r) * cols + ca, a.begin() + (ra + r) * cols + ca + wide,
                      expected.begin() + (rb + r) * cols + cb))
        return false;
    return true;
  };
  std::string text;
  uint64_t moved = 0;
  for (int64_t r = 0; r < rows; r += high)
    for (int64_t c = 0; c < cols; c += wide) {
      if (is_at(got, r, c, r, c)) continue;
      bool is_found = false;
      for (int64_t fr = 0; fr < rows && !is_found; fr += high)
        for (int64_t fc = 0; fc < cols && !is_found; fc += wide) {
          is_found = is_at(got, r, c, fr, fc);
          if (is_found && ++moved <= 3)
            text += fmt::format("{}rows {} to {}, columns {} to {} are rows {} to {}, columns {} to {} of the answer",
                                text.empty() ? "" : "; ", r, r + high - 1, c, c + wide - 1, fr, fr + high - 1, fc,
                                fc + wide - 1);
        }
      if (!is_found) return std::nullopt;
    }
  if (moved == 0) return std::nullopt;
  return text + (moved > 3 ? fmt::format("; and {} tiles of {} x {} more", moved - 3, high, wide) : "");
}

}  // namespace

std::optional<LineMove> line_move(const Elements& expected, const Elements& got, int64_t rows, int64_t cols,
                                  double bits) {
  for (const bool by_rows : {true, false}) {
    const Hashes right = line_hashes(expected, rows, cols, by_rows), given = line_hashes(got, rows, cols, by_rows);
    const double of_a_line = bits * static_cast<double>(by_rows ? cols : rows);
    if (auto text = LineMap(right, given, by_rows ? "row" : "column", of_a_line).text())
      return LineMove{by_rows ? "rows_moved" : "columns_moved", *text};
  }
  constexpr int64_t most_tiles = 16384;  // each is compared with each
  for (const int64_t high : {128, 64, 32, 16, 8})
    for (const int64_t wide : {128, 64, 32, 16, 8, 4}) {
      if (high >= rows || wide >= cols || rows % high != 0 || cols % wide != 0) continue;
      if (rows / high * (cols / wide) > most_tiles) continue;
      if (bits * static_cast<double>(high * wide) < 2 * std::log2(static_cast<double>(rows * cols)) + 24) continue;
      if (auto text = tile_text(expected, got, rows, cols, high, wide)) return LineMove{"tiles_moved", *text};
    }
  return std::nullopt;
}

}  // namespace fp4::golden
