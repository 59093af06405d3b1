#include "src/golden/accidents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "src/golden/line_moves.h"
#include "src/golden/places.h"

namespace fp4::golden {

DumpMatrix::DumpMatrix(const Case& c, const Evidence& e) : array(e.array), zero(e.zero) {
  const ArrayName name = parse_array_name(array);
  stage = name.stage;
  is_float = zero == float_sign_bit;
  if (e.expected.size() != e.got.size()) return;
  const Homes homes = homes_of(c, array);
  const bool is_moved = homes.at.size() == e.got.size();
  const auto plain_array = c.stored.find(name.part.starts_with("output") ? array : name.part);
  if (plain_array != c.stored.end() && plain_array->second.shape.size() == 2)
    rows = static_cast<int64_t>(plain_array->second.shape[0]);
  cols = is_moved ? homes.cols : static_cast<int64_t>(e.got.size()) / rows;
  const auto size = static_cast<size_t>(rows * cols);
  if (!is_moved && size != e.got.size()) cols = 0;
  if (cols == 0) return;
  if (is_moved) {
    expected.resize(size), got.resize(size);
    for (size_t i = 0; i < homes.at.size(); ++i)
      if (homes.at[i] >= 0) {
        expected[static_cast<size_t>(homes.at[i])] = e.expected[i];
        got[static_cast<size_t>(homes.at[i])] = e.got[i];
      }
  } else {
    expected = e.expected, got = e.got;
  }
  wrong = {rows, cols, std::vector<uint8_t>(size)};
  for (size_t i = 0; i < size; ++i) {
    if (expected[i] == any_element) got[i] = any_element;
    wrong.at[i] = expected[i] != got[i] ? 1 : 0;
    differences += wrong.at[i];
  }
}

namespace {

struct Finding {
  std::string word, place, says;  // "zeros", "rows 32 to 63", "are zeros: not written"
};

// The smallest of a few regular regions, all of one word, in which every difference lies.
class Blank {
 public:
  Blank(const DumpMatrix& m, uint32_t word) : m_(m), word_(word) {}

  std::optional<Place> place() const {
    for (const auto& [high, wide] : {std::pair{int64_t{1}, m_.cols}, {m_.rows, int64_t{1}}})
      if (auto found = of_tiles(high, wide)) return found;
    if (auto found = of_box()) return found;
    for (const int64_t high : {128, 64, 32, 16, 8})
      for (const int64_t wide : {128, 64, 32, 16, 8, 4})
        if (m_.rows % high == 0 && m_.cols % wide == 0)
          if (auto found = of_tiles(high, wide)) return found;
    return std::nullopt;
  }

 private:
  bool is_blank(int64_t r, int64_t c) const { return m_.plain(m_.got[static_cast<size_t>(r * m_.cols + c)]) == word_; }

  std::optional<Place> of_tiles(int64_t high, int64_t wide) const {
    const auto across = static_cast<size_t>(m_.cols / wide);
    std::vector<uint8_t> is_wrong(across * static_cast<size_t>(m_.rows / high), 0), is_whole(is_wrong.size(), 1);
    const auto each = [&](const auto& visit) {
      for (int64_t r = 0; r < m_.rows; ++r)
        for (size_t tile = 0, c = 0; tile < across; ++tile)
          for (const size_t end = c + static_cast<size_t>(wide); c < end; ++c)
            visit(static_cast<size_t>(r * m_.cols) + c, static_cast<size_t>(r / high) * across + tile);
    };
    each([&](size_t i, size_t tile) {
      is_wrong[tile] |= m_.wrong.at[i];
      if (m_.plain(m_.got[i]) != word_) is_whole[tile] = 0;
    });
    for (size_t i = 0; i < is_wrong.size(); ++i)
      if (is_wrong[i] > is_whole[i]) return std::nullopt;
    Marks marks = {m_.rows, m_.cols, std::vector<uint8_t>(m_.got.size())};
    each([&](size_t i, size_t tile) { marks.at[i] = is_wrong[tile]; });
    return checked(marks);
  }

  std::optional<Place> of_box() const {
    int64_t top = m_.rows, bottom = -1, left = m_.cols, right = -1;
    for (int64_t r = 0; r < m_.rows; ++r)
      for (int64_t c = 0; c < m_.cols; ++c)
        if (m_.differs(static_cast<size_t>(r * m_.cols + c))) {
          top = std::min(top, r), bottom = r;
          left = std::min(left, c), right = std::max(right, c);
        }
    Marks marks = {m_.rows, m_.cols, std::vector<uint8_t>(m_.got.size())};
    for (int64_t r = top; r <= bottom; ++r)
      for (int64_t c = left; c <= right; ++c) {
        if (!is_blank(r, c)) return std::nullopt;
        marks.at[static_cast<size_t>(r * m_.cols + c)] = 1;
      }
    return checked(marks);
  }

  // Most of what is blank should not be: a region of zeros that are right but for a few is none.
  std::optional<Place> checked(const Marks& marks) const {
    const Place place = place_of(marks);
    const int64_t size = std::count(marks.at.begin(), marks.at.end(), 1);
    const bool is_large = size >= 16 || size == m_.rows * m_.cols;
    if (!place.is_regular || !is_large || 2 * static_cast<int64_t>(m_.differences) < size) return std::nullopt;
    return place;
  }

  const DumpMatrix& m_;
  uint32_t word_;
};

std::optional<Finding> blank(const DumpMatrix& m, const Case& c, const CaseInputs& in) {
  const auto first = std::find(m.wrong.at.begin(), m.wrong.at.end(), 1) - m.wrong.at.begin();
  const uint32_t word = m.plain(m.got[static_cast<size_t>(first)]);
  const FloatFormat& scale = format_of(quant_spec_from_words(c.words).scale);
  const bool is_nan_word = m.is_float ? word == canonical_nan_bits : m.stage == "scales" && scale.is_nan_code(word);
  if (word != 0 && !is_nan_word) return std::nullopt;
  for (size_t i = 0; i < m.got.size(); ++i)
    if (m.differs(i) && m.plain(m.got[i]) != word) return std::nullopt;
  const auto finite = [](float x) { return is_finite(x); };
  if (is_nan_word && (!std::all_of(in.a.begin(), in.a.end(), finite) || !std::all_of(in.b.begin(), in.b.end(), finite)))
    return std::nullopt;  // a policy may have made them
  const auto place = Blank(m, word).place();
  const auto is_normal = [](float x) { return magnitude(x) > 0x1p-120f; };  // else a policy may flush it
  if (!place || (word == 0 && std::none_of(in.a.begin(), in.a.end(), is_normal))) return std::nullopt;
  return Finding{word == 0 ? "zeros" : "nan", place->text,
                 word == 0 ? "are zeros: not written" : "are NaN: not written, or a scale there is NaN"};
}

// Bits that one element says, of a few thousand.
double entropy(const Elements& e) {
  std::map<uint32_t, int> counts;
  const size_t step = std::max<size_t>(1, e.size() / 4096);
  int all = 0;
  for (size_t i = 0; i < e.size(); i += step, ++all) ++counts[e[i]];
  double bits = 0;
  for (const auto& [word, n] : counts) bits += n * std::log2(static_cast<double>(all) / n) / all;
  return bits;
}

std::optional<Finding> moved(const DumpMatrix& m) {
  const auto found = line_move(m.expected, m.got, m.rows, m.cols, entropy(m.expected));
  if (!found) return std::nullopt;
  return Finding{found->word, "", found->says};
}

// Every scale above one is that one.
std::optional<Finding> clamped(const DumpMatrix& m, const Case& c) {
  if (m.stage != "scales" || m.is_float || m.differences < 8) return std::nullopt;
  const FloatFormat& scale = format_of(quant_spec_from_words(c.words).scale);
  uint32_t top = any_element;
  for (size_t i = 0; i < m.got.size(); ++i) {
    if (!m.differs(i)) continue;
    if (top == any_element) top = m.got[i];
    if (m.got[i] != top || m.expected[i] < top || scale.is_nan_code(m.expected[i])) return std::nullopt;
  }
  std::set<uint32_t> right;  // codes that stayed: with few, a rule may have given the same
  for (size_t i = 0; i < m.got.size(); ++i)
    if (!m.differs(i) && !scale.is_nan_code(m.got[i])) right.insert(m.got[i]);
  if (right.size() < 16 || *right.rbegin() > top || scale.is_nan_code(top)) return std::nullopt;
  return Finding{"clamped", "",
                 fmt::format("{} scales above {} (byte {:02x}) are {}: clamped there", m.differences,
                             decode(scale, top), top, decode(scale, top))};
}

}  // namespace

std::optional<ScaleByte> shared_scale_byte(const Case& c, const std::vector<Evidence>& evidence,
                                           const Simulator& simulator) {
  const QuantSpec spec = quant_spec_from_words(c.words);
  if (c.is_gemm || !spec.has_scale() || is_real(spec.scale) || c.hadamard.size > 0) return std::nullopt;
  const BlockGeometry g = geometry_of(spec, c.rows, c.cols);
  for (const Evidence& e : evidence) {
    const DumpMatrix m(c, e);
    const bool is_scale = m.array == "scales";
    if (m.differences == 0 || (!is_scale && m.array != "codes" && m.array != "dequantized")) continue;
    const Elements bytes = simulator.elements(simulator.base(), "scales");
    std::vector<uint8_t> is_wrong(bytes.size(), 0);
    ScaleByte out = {any_element, 0, 0, true};
    for (int64_t r = 0, i = 0; r < m.rows; ++r)
      for (int64_t k = 0; k < m.cols; ++k, ++i) {
        if (!m.differs(static_cast<size_t>(i))) continue;
        const auto block = static_cast<size_t>(is_scale ? i : r / g.block_rows * g.scale_cols + k / g.block_cols);
        if (out.byte != any_element && bytes[block] != out.byte) return std::nullopt;
        out.byte = bytes[block];
        out.came_as_zeros &= !is_scale && m.plain(m.got[static_cast<size_t>(i)]) == 0;
        is_wrong[block] = 1;
      }
    out.wrong = std::count(is_wrong.begin(), is_wrong.end(), 1);
    out.right = std::count(bytes.begin(), bytes.end(), out.byte) - out.wrong;
    if (out.wrong >= 4) return out;
  }
  return std::nullopt;
}

std::optional<Cause> array_accident(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence) {
  Cause cause;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> arrays;  // by what is found
  std::vector<std::string> parts;
  for (const Evidence& e : evidence) {
    const DumpMatrix m(c, e);
    if (m.cols == 0) return std::nullopt;
    if (m.differences == 0) continue;
    std::optional<Finding> found = blank(m, c, in);
    if (!found) found = clamped(m, c);
    if (!found) found = moved(m);
    if (!found) return std::nullopt;
    cause.before += m.differences;
    cause.changes.push_back({m.stage == "output" ? "output" : m.array, found->word});
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
