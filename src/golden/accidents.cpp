#include "src/golden/accidents.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>

#include "src/files/large_pages.h"

namespace fp4::golden {

namespace {

struct Finding {
  std::string word, place, says;  // "zeros", "rows 32 to 63", "are zeros: not written"
};

struct Region {
  int64_t top, left, high, wide;  // tiles of high x wide from there on
};

// The smallest region in which every difference lies.
Region box_of(const ArrayPair& e) {
  int64_t top = e.rows, bottom = 0, left = e.cols, right = 0;
  for (int64_t r = 0; r < e.rows; ++r) {
    const auto row = e.wrong.at.begin() + r * e.cols, end = row + e.cols;
    const auto first = std::find(row, end, 1);
    if (first == end) continue;
    top = std::min(top, r), bottom = r;
    left = std::min<int64_t>(left, first - row);
    right = std::max<int64_t>(
        right, e.cols - 1 -
                   (std::find(std::reverse_iterator(end), std::reverse_iterator(row), 1) - std::reverse_iterator(end)));
  }
  return {top, left, bottom - top + 1, right - left + 1};
}

// Where the tiles lie in which something differs, if each of them is `word` alone.
std::optional<Place> blank_tiles(const ArrayPair& e, uint32_t word, const Region& tile) {
  const auto width = static_cast<size_t>(e.cols), left = static_cast<size_t>(tile.left);
  const auto wide = static_cast<size_t>(tile.wide);
  const size_t across = (width - left + wide - 1) / wide;
  std::vector<uint8_t> all;  // tiles, 1 where something differs
  Elements x(width), y(width);
  int64_t size = 0;
  for (int64_t top = tile.top; top < e.rows; top += tile.high) {
    const int64_t end = std::min(e.rows, top + tile.high);
    all.resize(all.size() + across);
    uint8_t* const is_wrong = &all[all.size() - across];
    bool is_any = false;
    for (int64_t r = top; r < end; ++r) {
      const uint8_t* const wrong = &e.wrong.at[static_cast<size_t>(r) * width];
      for (size_t t = 0, c = left; c < width; ++t, c += wide)
        if (is_wrong[t] == 0 && std::memchr(wrong + c, 1, std::min(wide, width - c)) != nullptr)
          is_wrong[t] = 1, is_any = true;
    }
    for (int64_t r = top; r < end && is_any; ++r) {
      e.copy_row(r, x, y);
      for (size_t t = 0; t < across; ++t) {
        if (is_wrong[t] == 0) continue;
        const size_t first = left + t * wide, last = std::min(width, first + wide);
        bool is_word = true;
        for (size_t c = first; c < last; ++c) is_word &= e.plain(y[c]) == word;
        if (!is_word) return std::nullopt;
        size += static_cast<int64_t>(last - first);
      }
    }
  }
  // Most of what is blank should not be: a region of zeros that are right but for a few is none.
  const bool is_large = size >= 16 || size == e.rows * e.cols;
  if (!is_large || 2 * static_cast<int64_t>(e.differences) < size) return std::nullopt;
  Marks marks = {e.rows, e.cols, large_vector<uint8_t>(e.wrong.at.size())};
  for (int64_t r = tile.top; r < e.rows; ++r)
    for (size_t t = 0, c = left; c < width; ++t, c += wide)
      std::memset(&marks.at[static_cast<size_t>(r) * width + c],
                  all[static_cast<size_t>((r - tile.top) / tile.high) * across + t], std::min(wide, width - c));
  const Place place = place_of(marks);
  return place.is_regular ? std::optional(place) : std::nullopt;
}

// A few regular regions, all of one word, in which every difference lies.
std::optional<Place> blank_place(const ArrayPair& e, uint32_t word) {
  std::vector<Region> tiles = {{0, 0, 1, e.cols}, {0, 0, e.rows, 1}, box_of(e)};
  for (const int64_t high : {128, 64, 32, 16, 8})
    for (const int64_t wide : {128, 64, 32, 16, 8, 4})
      if (e.rows % high == 0 && e.cols % wide == 0) tiles.push_back({0, 0, high, wide});
  for (const Region& tile : tiles)
    if (auto found = blank_tiles(e, word, tile)) return found;
  return std::nullopt;
}

// Whether body(expected, got, wrong) holds for all rows, `wrong` being their marks.
template <class Body>
bool holds_for_rows(const ArrayPair& e, const Body& body) {
  std::atomic<bool> all = true;
  for_bands(e.rows, e.cols, [&](int64_t first, int64_t last) {
    Elements x(static_cast<size_t>(e.cols)), y(x.size());
    for (int64_t r = first; r < last && all; ++r) {
      e.copy_row(r, x, y);
      if (!body(x, y, &e.wrong.at[static_cast<size_t>(r) * x.size()])) all = false;
    }
  });
  return all;
}

bool holds_alone(const ArrayPair& e, uint32_t word) {
  return holds_for_rows(e, [&](const Elements&, const Elements& got, const uint8_t* wrong) {
    bool all = true;
    for (size_t i = 0; i < got.size(); ++i) all &= (wrong[i] == 0) | (e.plain(got[i]) == word);
    return all;
  });
}

std::optional<Finding> blank(const ArrayPair& e, const Case& c, const CaseInputs& in) {
  const auto first = std::find(e.wrong.at.begin(), e.wrong.at.end(), 1) - e.wrong.at.begin();
  const uint32_t word = e.plain(e.got[static_cast<size_t>(first)]);
  const FloatFormat& scale = format_of(quant_spec_from_words(c.words).scale);
  const bool is_nan_word = e.is_float() ? word == canonical_nan_bits : e.stage == "scales" && scale.is_nan_code(word);
  if ((word != 0 && !is_nan_word) || !holds_alone(e, word)) return std::nullopt;
  // A policy may have made NaN of others, and zeros of what is that small.
  const auto makes_nan = [](float x) { return !is_finite(x); };
  const auto is_normal = [](float x) { return magnitude(x) > 0x1p-120f; };
  if (is_nan_word &&
      (std::any_of(in.a.begin(), in.a.end(), makes_nan) || std::any_of(in.b.begin(), in.b.end(), makes_nan)))
    return std::nullopt;
  if (word == 0 && std::none_of(in.a.begin(), in.a.end(), is_normal)) return std::nullopt;
  const auto place = blank_place(e, word);
  if (!place) return std::nullopt;
  return Finding{word == 0 ? "zeros" : "nan", place->text,
                 word == 0 ? "are zeros: not written" : "are NaN: not written, or a scale there is NaN"};
}

// Every scale above one is that one.
std::optional<Finding> clamped(const ArrayPair& m, const Case& c) {
  if (m.stage != "scales" || m.is_float() || m.differences < 8) return std::nullopt;
  const FloatFormat& scale = format_of(quant_spec_from_words(c.words).scale);
  uint32_t top = any_element;
  std::set<uint32_t> right;  // codes that stayed: with few, a rule may have given the same
  for (size_t i = 0; i < m.got.size(); ++i) {
    const uint32_t expected = m.expected[i], got = m.got[i];
    if (!m.differs(i)) {
      if (!scale.is_nan_code(got)) right.insert(got);
      continue;
    }
    if (top == any_element) top = got;
    if (got != top || expected < top || scale.is_nan_code(expected)) return std::nullopt;
  }
  if (right.size() < 16 || *right.rbegin() > top || scale.is_nan_code(top)) return std::nullopt;
  return Finding{"clamped", "",
                 fmt::format("{} scales above {} (byte {:02x}) are {}: clamped there", m.differences,
                             decode(scale, top), top, decode(scale, top))};
}

// Every scale is the same number of codes off, beside codes that are right: a bias of the format's exponents, or less.
std::optional<Finding> stepped(const ArrayPair& e, const Case& c, const std::vector<ArrayPair>& evidence) {
  const bool beside_right_codes = std::any_of(evidence.begin(), evidence.end(), [&](const ArrayPair& codes) {
    return codes.stage == "codes" && codes.is_matrix() && codes.differences == 0 &&
           parse_array_name(codes.array).is_transposed == parse_array_name(e.array).is_transposed;
  });
  if (e.stage != "scales" || e.is_float() || e.differences < 8 || !beside_right_codes) return std::nullopt;
  const Elements some = e.expected.some(0, std::min<size_t>(e.expected.size(), 4096));
  if (std::set(some.begin(), some.end()).size() < 4) return std::nullopt;  // a rule may turn so few into others
  const int64_t top = format_of(quant_spec_from_words(c.words).scale).largest_code;
  int64_t step = 0;  // the largest: less where it ends at 0 or at the top
  for (size_t i = 0; i < some.size(); ++i) {
    const int64_t here = static_cast<int64_t>(e.got[i]) - some[i];
    if (std::abs(here) > std::abs(step)) step = here;
  }
  if (std::abs(step) > 3) return std::nullopt;  // another tensor scale moves all by more
  const bool all = holds_for_rows(e, [&](const Elements& expected, const Elements& got, const uint8_t*) {
    bool row = true;
    for (size_t i = 0; i < got.size(); ++i) row &= got[i] == std::clamp<int64_t>(expected[i] + step, 0, top);
    return row;
  });
  if (!all) return std::nullopt;
  return Finding{"stepped", "", fmt::format("each scale's code is the right one {:+}", step)};
}

// Every negative number came without its sign.
std::optional<Finding> without_signs(const ArrayPair& e) {
  if (e.zero == 0) return std::nullopt;
  std::atomic<uint64_t> numbers = 0;  // -0 has policies of its own
  const bool all = holds_for_rows(e, [&](const Elements& expected, const Elements& got, const uint8_t*) {
    bool row = true;
    uint64_t count = 0;
    for (size_t i = 0; i < got.size(); ++i) row &= got[i] == (expected[i] & ~e.zero), count += expected[i] > e.zero;
    numbers += count;
    return row;
  });
  return !all || numbers < 8 ? std::nullopt : std::optional(Finding{"unsigned", "", "the sign of each number is lost"});
}

}  // namespace

std::optional<ScaleByte> shared_scale_byte(const Case& c, const std::vector<ArrayPair>& evidence,
                                           const Simulator& simulator) {
  const QuantSpec spec = quant_spec_from_words(c.words);
  if (c.is_gemm || !spec.has_scale() || is_real(spec.scale) || c.hadamard.size > 0) return std::nullopt;
  const BlockGeometry g = geometry_of(spec, c.rows, c.cols);
  for (const ArrayPair& e : evidence) {
    const bool is_scale = e.array == "scales";
    if (e.differences == 0 || (!is_scale && e.array != "codes" && e.array != "dequantized")) continue;
    const Elements bytes = simulator.elements(simulator.base(), "scales");
    std::vector<uint8_t> is_wrong(bytes.size(), 0);
    ScaleByte out = {any_element, 0, 0, true};
    for (int64_t r = 0, i = 0; r < e.rows; ++r)
      for (int64_t k = 0; k < e.cols; ++k, ++i) {
        if (!e.differs(static_cast<size_t>(i))) continue;
        const auto block = static_cast<size_t>(is_scale ? i : r / g.block_rows * g.scale_cols + k / g.block_cols);
        if (out.byte != any_element && bytes[block] != out.byte) return std::nullopt;
        out.byte = bytes[block];
        out.came_as_zeros &= !is_scale && e.plain(e.got[static_cast<size_t>(i)]) == 0;
        is_wrong[block] = 1;
      }
    out.wrong = std::count(is_wrong.begin(), is_wrong.end(), 1);
    out.right = std::count(bytes.begin(), bytes.end(), out.byte) - out.wrong;
    if (out.wrong >= 4) return out;
  }
  return std::nullopt;
}

std::optional<Cause> array_accident(const Case& c, const CaseInputs& in, const std::vector<ArrayPair>& evidence) {
  Cause cause;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> arrays;  // by what is found
  std::vector<std::string> parts;
  for (const ArrayPair& e : evidence) {
    if (!e.is_matrix()) return std::nullopt;
    if (e.differences == 0) continue;
    std::optional<Finding> found = blank(e, c, in);
    if (!found) found = clamped(e, c);
    if (!found) found = stepped(e, c, evidence);
    if (!found) found = without_signs(e);
    if (const auto move = found ? std::nullopt : line_move(e)) found = {move->word, "", move->says};
    if (!found) return std::nullopt;
    cause.before += e.differences;
    cause.changes.push_back({e.stage == "output" ? "output" : e.array, found->word});
    auto& alike = arrays[{found->place, found->says}];
    alike.push_back(cause.changes.back().axis);
  }
  for (const auto& [what, names] : arrays)
    parts.push_back(what.first.empty()
                        ? fmt::format("{}: {}", fmt::join(names, " and "), what.second)
                        : fmt::format("{} of {} {}", what.first, fmt::join(names, " and "), what.second));
  cause.detail = fmt::format("{}", fmt::join(parts, "; "));
  cause.f1 = 1;
  return cause;
}

}  // namespace fp4::golden
