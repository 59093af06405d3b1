#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>

#include "src/golden/accidents.h"

namespace fp4::golden {
namespace {

using Hashes = std::vector<uint64_t>;

// Of the answer and of what came, row by row or column by column: sums of words times a number of their place.
struct LineHashes {
  Hashes expected, got;
};
LineHashes line_hashes(const ArrayPair& e, bool by_rows) {
  const auto rows = static_cast<size_t>(e.rows), cols = static_cast<size_t>(e.cols);
  const auto factor = [](uint64_t i) { return (2 * i + 1) * 0x9E3779B97F4A7C15u * ((i ^ 0x5851F42Du) | 1); };
  Hashes factors(by_rows ? cols : rows);
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = factor(i);
  LineHashes out = {Hashes(by_rows ? rows : cols), Hashes(by_rows ? rows : cols)};
  std::mutex mutex;
  const auto add = [&](int64_t first, int64_t last) {
    Elements x(cols), y(cols);
    LineHashes mine = {Hashes(by_rows ? 0 : cols), Hashes(by_rows ? 0 : cols)};
    for (auto r = static_cast<size_t>(first); r < static_cast<size_t>(last); ++r) {
      e.copy_row(static_cast<int64_t>(r), x, y);
      uint64_t of_x = 0, of_y = 0;
      for (size_t c = 0; by_rows && c < cols; ++c)
        of_x += (x[c] + 1ull) * factors[c], of_y += (y[c] + 1ull) * factors[c];
      if (by_rows) out.expected[r] = of_x, out.got[r] = of_y;
      for (size_t c = 0; !by_rows && c < cols; ++c)
        mine.expected[c] += (x[c] + 1ull) * factors[r], mine.got[c] += (y[c] + 1ull) * factors[r];
    }
    const std::lock_guard lock(mutex);
    for (size_t c = 0; !by_rows && c < cols; ++c) out.expected[c] += mine.expected[c], out.got[c] += mine.got[c];
  };
  for_bands(e.rows, e.cols, add, int64_t{1} << 20);
  return out;
}

// Bits that one element says, of a few thousand.
double entropy(const Words& e) {
  std::map<uint32_t, int> counts;
  const size_t step = std::max<size_t>(1, e.size() / 4096);
  int all = 0;
  for (size_t i = 0; i < e.size(); i += step, ++all) ++counts[e[i]];
  double bits = 0;
  for (const auto& [word, n] : counts) bits += n * std::log2(static_cast<double>(all) / n) / all;
  return bits;
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
class TileMap {
 public:
  TileMap(const ArrayPair& e, int64_t high, int64_t wide) : e_(e), high_(high), wide_(wide) {}

  std::optional<std::string> text() {
    std::string text;
    uint64_t moved = 0;
    for (int64_t r = 0; r < e_.rows; r += high_)
      for (int64_t c = 0; c < e_.cols; c += wide_) {
        if (!differs(r, c)) continue;
        const auto home = home_of(r, c);
        if (!home) return std::nullopt;
        if (++moved <= 3)
          text += fmt::format("{}{} are {} of the answer", text.empty() ? "" : "; ", tile_text(r, c),
                              tile_text(home->first, home->second));
      }
    if (moved == 0) return std::nullopt;
    return text + (moved > 3 ? fmt::format("; and {} tiles of {} x {} more", moved - 3, high_, wide_) : "");
  }

 private:
  size_t index(int64_t r, int64_t c) const { return static_cast<size_t>(r * e_.cols + c); }
  std::string tile_text(int64_t r, int64_t c) const {
    return fmt::format("rows {} to {}, columns {} to {}", r, r + high_ - 1, c, c + wide_ - 1);
  }
  bool differs(int64_t r, int64_t c) const {
    for (int64_t i = 0; i < high_; ++i)
      if (std::memchr(&e_.wrong.at[index(r + i, c)], 1, static_cast<size_t>(wide_)) != nullptr) return true;
    return false;
  }
  uint64_t first_words(const Words& of, int64_t r, int64_t c) const {
    uint64_t h = 0;
    for (int64_t i = 0; i < std::min<int64_t>(high_, 8); ++i)
      for (int64_t k = 0; k < 4; ++k) h = (h ^ of[index(r + i, c + k)]) * 0x9E3779B97F4A7C15u;
    return h;
  }
  bool is_at(int64_t r, int64_t c, int64_t from_r, int64_t from_c) const {
    for (int64_t i = 0; i < high_; ++i)
      for (int64_t k = 0; k < wide_; ++k)
        if (e_.got[index(r + i, c + k)] != e_.expected[index(from_r + i, from_c + k)]) return false;
    return true;
  }
  std::optional<std::pair<int64_t, int64_t>> home_of(int64_t r, int64_t c) {
    if (homes_.empty())
      for (int64_t fr = 0; fr < e_.rows; fr += high_)
        for (int64_t fc = 0; fc < e_.cols; fc += wide_) homes_[first_words(e_.expected, fr, fc)].push_back({fr, fc});
    for (const auto& [fr, fc] : homes_[first_words(e_.got, r, c)])
      if (is_at(r, c, fr, fc)) return std::pair{fr, fc};
    return std::nullopt;
  }

  const ArrayPair& e_;
  int64_t high_, wide_;
  std::unordered_map<uint64_t, std::vector<std::pair<int64_t, int64_t>>> homes_;  // of tiles that begin alike
};

}  // namespace

std::optional<LineMove> line_move(const ArrayPair& e) {
  const double bits = entropy(e.expected);
  for (const bool by_rows : {true, false}) {
    const LineHashes lines = line_hashes(e, by_rows);
    const double of_a_line = bits * static_cast<double>(by_rows ? e.cols : e.rows);
    if (auto text = LineMap(lines.expected, lines.got, by_rows ? "row" : "column", of_a_line).text())
      return LineMove{by_rows ? "rows_moved" : "columns_moved", *text};
  }
  constexpr int64_t most_tiles = 65536;
  for (const int64_t high : {128, 64, 32, 16, 8})
    for (const int64_t wide : {128, 64, 32, 16, 8, 4}) {
      if (high >= e.rows || wide >= e.cols || e.rows % high != 0 || e.cols % wide != 0) continue;
      if (e.rows / high * (e.cols / wide) > most_tiles) continue;
      if (bits * static_cast<double>(high * wide) < 2 * std::log2(static_cast<double>(e.rows * e.cols)) + 24) continue;
      if (auto text = TileMap(e, high, wide).text()) return LineMove{"tiles_moved", *text};
    }
  return std::nullopt;
}

}  // namespace fp4::golden
