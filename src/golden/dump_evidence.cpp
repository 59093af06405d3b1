#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>

#include "src/arith/amax.h"
#include "src/golden/accidents.h"

namespace fp4::golden {
namespace {

constexpr int64_t wanted = int64_t{1} << 13;  // elements of a part

bool is_same(uint32_t simulated, uint32_t got) { return (simulated == got) | (simulated == any_element); }

// Zeros of both signs as one number.
uint32_t unsigned_zero(uint32_t element, uint32_t zero) { return element == zero ? 0 : element; }

// Numbers of the lines that differ most, most first.
std::vector<int64_t> most_of(const std::vector<uint64_t>& differences, size_t count) {
  std::vector<int64_t> lines(differences.size());
  std::iota(lines.begin(), lines.end(), 0);
  std::stable_sort(lines.begin(), lines.end(), [&](int64_t a, int64_t b) {
    return differences[static_cast<size_t>(a)] > differences[static_cast<size_t>(b)];
  });
  lines.resize(std::min(count, lines.size()));
  return lines;
}

// A window of a matrix: of the tensor, or of an array whose elements stand for `high` x `wide` of the tensor's.
struct Window {
  int64_t top, left, high, wide;
  Window of(const ArrayPair& e, const BlockGeometry& g, int64_t all_cols) const {
    const int64_t down = e.stage == "scales" ? g.block_rows : 1, across = e.stage == "scales" ? g.block_cols : 1;
    const int64_t t = top / down, l = left / across;
    const bool is_last = left + wide >= all_cols;  // with what is padded
    return {t, l, smaller(e.rows, (top + high + down - 1) / down) - t,
            (is_last ? e.cols : smaller(e.cols, (left + wide + across - 1) / across)) - l};
  }
};

// How many elements of the window differ.
uint64_t differences_in(const ArrayPair& e, const Window& w) {
  uint64_t count = 0;
  for (int64_t r = w.top; r < w.top + w.high; ++r) {
    const auto at = e.wrong.at.begin() + r * e.cols + w.left;
    count += static_cast<uint64_t>(std::count(at, at + w.wide, 1));
  }
  return count;
}

ArrayPair cut_out(const ArrayPair& e, const Window& w) {
  Elements expected, got;
  for (int64_t r = w.top; r < w.top + w.high; ++r) {
    const auto first = static_cast<size_t>(r * e.cols + w.left), size = static_cast<size_t>(w.wide);
    const Elements x = e.expected.some(first, size), y = e.got.some(first, size);
    expected.insert(expected.end(), x.begin(), x.end()), got.insert(got.end(), y.begin(), y.end());
  }
  ArrayPair out = {e.array, e.stage, Words(std::move(expected)), Words(std::move(got)), e.type, e.zero};
  out.rows = w.high, out.cols = w.wide, out.whole = &e, out.top = w.top, out.left = w.left;
  return out;
}

// Whether blocks lie in rows of their own.
bool has_row_blocks(const QuantSpec& s) {
  return !s.has_scale() || s.block.kind == BlockKind::vector || s.block.kind == BlockKind::row;
}

std::optional<Sample> window_of(Cut cut, const Case& c, const CaseInputs& in, const std::vector<ArrayPair>& evidence,
                                float amax) {
  constexpr int64_t side = 128;
  const QuantSpec spec = quant_spec_from_words(c.words);
  const bool by_rows = cut == Cut::rows, is_turned = cut == Cut::turned_tile;
  if (c.rows * c.cols < 8 * wanted || (by_rows && !has_row_blocks(spec)) || (is_turned && c.rows != c.cols))
    return std::nullopt;
  Sample s = {cut, c, {}, {0, amax}, {}, {}};
  const BlockGeometry g = geometry_of(spec, c.rows, c.cols);
  std::vector<const ArrayPair*> seen;  // arrays of other sizes and of the transposed operand are left to the whole look
  const bool has_codes = std::any_of(evidence.begin(), evidence.end(),
                                     [](const ArrayPair& e) { return e.stage == "codes" || e.stage == "scales"; });
  for (const ArrayPair& e : evidence) {
    const bool is_tensor = e.stage == "tensor_scale";
    if (e.is_matrix() && !parse_array_name(e.array).is_transposed && (!is_tensor || e.expected.size() == 1) &&
        (!is_turned || e.stage != "dequantized" || !has_codes))
      seen.push_back(&e);
  }
  Window w = {0, 0, c.rows, c.cols};
  const auto choose = [&](int64_t& first, int64_t& size, int64_t wish) {
    const int64_t all = size, step = smaller(all, wish);
    uint64_t most = 0;
    int64_t best = 0;
    for (first = 0, size = step; first < all; first += step) {
      size = smaller(step, all - first);
      uint64_t count = 0;
      for (const ArrayPair* e : seen)
        if (e->stage != "tensor_scale") count += differences_in(*e, w.of(*e, g, c.cols));
      if (count > most) most = count, best = first;
    }
    first = best, size = smaller(step, all - best);
  };
  choose(w.top, w.high, by_rows ? larger<int64_t>(1, wanted / c.cols) : side);
  if (!by_rows) choose(w.left, w.wide, side);
  s.c.rows = w.high, s.c.cols = w.wide, s.band.first_row = w.top;
  for (int64_t r = w.top; r < w.top + w.high; ++r)
    for (int64_t k = w.left; k < w.left + w.wide; ++k)
      s.in.a.push_back(in.a[static_cast<size_t>(is_turned ? k * c.cols + r : r * c.cols + k)]);
  for (const ArrayPair* e : seen)
    s.evidence.push_back(cut_out(*e, e->stage == "tensor_scale" ? Window{0, 0, 1, 1} : w.of(*e, g, c.cols)));
  return s;
}

// How a kernel's elements explain those that came, beside the golden ones.
void count(Score& s, uint32_t zero, const Elements& now, const Elements& before, const Elements& got, size_t size,
           bool same_size) {
  uint32_t after = 0, after_zeros = 0, seen = 0, predicted = 0, found = 0;  // words, so that compilers take vectors
  for (size_t i = 0; i < size; ++i) {
    const uint32_t gives = unsigned_zero(now[i], zero), came = unsigned_zero(got[i], zero);
    const uint32_t is_golden = same_size ? unsigned_zero(before[i], zero) : ~gives;
    const uint32_t predicts = (gives != is_golden) & (gives != any_element), differs = !is_same(is_golden, came);
    after += !is_same(now[i], got[i]);
    after_zeros += !is_same(gives, came);
    seen += differs;
    predicted += predicts;
    found += predicts & (gives == came) & differs;
  }
  s.after += after, s.after_zeros += after_zeros, s.seen += seen, s.predicted += predicted, s.found += found;
}

// The sum of the scores that body(first, last) gives for bands of rows.
template <class Body>
Score score_of_bands(int64_t rows, int64_t cols, const Body& body) {
  Score all;
  std::mutex mutex;
  for_bands(rows, cols, [&](int64_t first, int64_t last) {
    const Score s = body(first, last);
    const std::lock_guard lock(mutex);
    all += s;
  });
  return all;
}

void count_all(Score& s, uint64_t elements) { s.after += elements, s.after_zeros += elements, s.seen += elements; }

// The order in which a kernel stored an array, where it is not that of the evidence.
const Placing* order_of(const Kernel& k, const ArrayPair& e) {
  const ArrayName name = parse_array_name(e.array);
  const auto codes = k.codes_in.value_or(e.is_matrix() ? CodeLayout::low_first : name.code_layout);
  const auto scales = k.scales_in.value_or(e.is_matrix() ? ScaleLayout::linear : name.scale_layout);
  const bool is_moved = !(e.whole != nullptr ? e.whole : &e)->homes.at.empty();  // by the order of its name
  if (e.stage == "codes" && (codes != CodeLayout::low_first || (k.codes_in && is_moved)))
    return &row_of(code_layout_table, codes).placing;
  if (e.stage == "scales" && (scales != ScaleLayout::linear || (k.scales_in && is_moved)))
    return &row_of(scale_layout_table, scales).placing;
  return nullptr;
}

// Elements [rows, ..] of a kernel that stores them in `order`, or those of a sample of it, beside the dump's.
void count_in_order(Score& s, const Placing& order, const ArrayPair& e, const Words& made, int64_t rows) {
  const ArrayPair& all = e.whole != nullptr ? *e.whole : e;
  const int64_t cols = static_cast<int64_t>(made.size()) / larger<int64_t>(rows, 1);
  const Placement at(order, e.whole != nullptr ? all.rows : rows, e.whole != nullptr ? all.cols : cols);
  const bool is_moved = !all.homes.at.empty();  // the dump lies in an order of its own
  const bool is_of_part = e.whole == nullptr || (rows == e.rows && cols == e.cols);  // not by blocks of another size
  if (!is_of_part || at.size() != static_cast<int64_t>(is_moved ? all.homes.at.size() : all.got.size()))
    return count_all(s, std::max(made.size(), size_t{1}));
  const auto width = static_cast<size_t>(cols);
  s += score_of_bands(rows, cols, [&](int64_t first, int64_t last) {
    Elements now(width), before(width), got(width);
    Score mine;
    for (int64_t r = first; r < last; ++r) {
      made.copy(static_cast<size_t>(r) * width, width, now.data());
      for (size_t k = 0; k < width; ++k) {
        const int64_t place = at.at(e.top + r, e.left + static_cast<int64_t>(k));
        const int64_t home = is_moved ? all.homes.at[static_cast<size_t>(place)] : place;
        if (home < 0) now[k] = any_element;
        const auto i = static_cast<size_t>(larger<int64_t>(home, 0));
        got[k] = all.got[i], before[k] = all.is_matrix() ? all.expected[i] : 0;
      }
      count(mine, e.zero, now, before, got, width, all.is_matrix());
    }
    return mine;
  });
}

}  // namespace

std::optional<Sample> corner_of(const Case& c, const std::vector<ArrayPair>& evidence) {
  const int64_t width = c.is_gemm ? c.rows_b : c.cols;
  const auto side = static_cast<size_t>(c.is_gemm ? 24 : std::clamp<int64_t>(wanted / width, 2, 24));
  if (c.rows * width < 8 * 24 * 24) return std::nullopt;
  std::vector<uint64_t> rows(static_cast<size_t>(c.rows)), cols(static_cast<size_t>(width));
  for (const ArrayPair& e : evidence) {
    if (!e.is_matrix() || e.rows != c.rows || e.cols != width) return std::nullopt;
    for (size_t r = 0, i = 0; r < rows.size(); ++r, i += cols.size()) {
      if (std::memchr(&e.wrong.at[i], 1, cols.size()) == nullptr) continue;
      for (size_t k = 0; k < cols.size(); ++k) rows[r] += e.wrong.at[i + k], cols[k] += e.wrong.at[i + k];
    }
  }
  Sample s = {Cut::corner, c, {}, {}, {most_of(rows, side), most_of(cols, c.is_gemm ? side : cols.size())}, {}};
  if (!c.is_gemm) std::sort(s.corner.cols.begin(), s.corner.cols.end());
  for (const ArrayPair& e : evidence) {
    Elements expected, got;
    for (const int64_t i : s.corner.rows)
      for (const int64_t j : s.corner.cols) {
        expected.push_back(e.expected[static_cast<size_t>(i * width + j)]);
        got.push_back(e.got[static_cast<size_t>(i * width + j)]);
      }
    s.evidence.push_back({e.array, e.stage, Words(std::move(expected)), Words(std::move(got)), e.type, e.zero});
  }
  return s;
}

std::vector<Sample> windows_of(const Case& c, const CaseInputs& in, const std::vector<ArrayPair>& evidence) {
  std::vector<Sample> out;
  const QuantSpec spec = quant_spec_from_words(c.words);
  if (c.is_gemm || c.hadamard.size > 0 || !c.random_words.empty() || spec.block.kind == BlockKind::tensor) return out;
  const float amax = finite_amax(in.a.data(), static_cast<int64_t>(in.a.size()));
  if (magnitude_bits(amax) < 0x00800000u || std::any_of(in.a.begin(), in.a.end(), &is_nan)) return out;
  for (const Cut cut : {Cut::rows, Cut::tile, Cut::turned_tile})
    if (auto s = window_of(cut, c, in, evidence, amax)) out.push_back(std::move(*s));
  return out;
}

bool Sample::tells(Kernel& k) const {
  if (cut == Cut::corner && c.is_gemm) return !k.output_transposed || c.rows == c.rows_b;
  if ((cut == Cut::corner) != (k.misread[0] != nullptr)) return false;
  if (cut == Cut::corner) return true;
  const bool has_values_alone = evidence.size() == 1 && evidence[0].stage == "dequantized";
  const bool draws = k.a.draws_random_bits();
  if (cut == Cut::rows)
    return has_row_blocks(k.a) && !k.other_operand && !k.swap_operand_axis && !(k.recodes() && draws);
  const bool in_tiles = !k.a.has_scale() || k.a.block.kind == BlockKind::vector || k.a.block.kind == BlockKind::square;
  if (!in_tiles || draws || k.a.tensor_scale_cols(1) > 0) return false;
  if (cut == Cut::tile) return !k.other_operand && (!k.swap_operand_axis || has_values_alone);
  if (k.other_operand == k.swap_operand_axis || k.codes_in || k.scales_in || (k.swap_operand_axis && has_values_alone))
    return false;
  k.other_operand = k.swap_operand_axis = false;
  return true;
}

Score score(const Simulator& simulator, const Kernel& kernel, const std::vector<ArrayPair>& evidence) {
  Score s;
  const bool is_order = static_cast<const Computation&>(kernel) == simulator.base() && !kernel.other_operand &&
                        (kernel.codes_in || kernel.scales_in);
  for (const ArrayPair& e : evidence) {
    const Placing* const order = order_of(kernel, e);
    const ArrayName name = parse_array_name(e.array);
    const bool is_plain = name.code_layout == CodeLayout::low_first && name.scale_layout == ScaleLayout::linear;
    int64_t rows = e.rows;
    Elements simulated;
    if (!is_order || (!is_plain && !e.is_matrix())) simulated = simulator.elements(kernel, e.array, &rows);
    round_words(e.type, simulated);
    const Words there = simulated.empty() ? e.expected : Words(std::move(simulated));  // it may say nothing of an array
    if (order != nullptr) {
      count_in_order(s, *order, e, there, rows);
      continue;
    }
    if (there.size() != e.got.size()) {
      count_all(s, std::max({there.size(), e.got.size(), size_t{1}}));
      continue;
    }
    const bool same_size = e.expected.size() == e.got.size();
    s += score_of_bands(static_cast<int64_t>(there.size()), 1, [&](int64_t begin, int64_t end) {
      const auto first = static_cast<size_t>(begin), size = static_cast<size_t>(end - begin);
      Elements before(same_size ? size : 0), now = there.some(first, size), got = e.got.some(first, size);
      if (same_size) e.expected.copy(first, size, before.data());
      Score mine;
      count(mine, e.zero, now, before, got, size, same_size);
      return mine;
    });
  }
  return s;
}

}  // namespace fp4::golden
