#include "src/golden/dump_evidence.h"

#include <algorithm>
#include <numeric>

namespace fp4::golden {
namespace {

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

}  // namespace

std::vector<Evidence> gather(const Bundle& bundle, const Case& c, const std::vector<CandidateArray>& arrays) {
  std::vector<Evidence> out;
  for (const CandidateArray& a : arrays)
    out.push_back(evidence_of(c, a, load_array(bundle, c, a.golden), codes_of_nan_blocks(bundle, c, a.golden)));
  return out;
}

std::optional<Sample> corner_of(const Case& c, const std::vector<Evidence>& evidence) {
  constexpr size_t side = 24;
  const int64_t width = c.is_gemm ? c.rows_b : c.cols;
  if (c.rows * width < 8 * static_cast<int64_t>(side * side)) return std::nullopt;
  std::vector<uint64_t> rows(static_cast<size_t>(c.rows)), cols(static_cast<size_t>(width));
  for (const Evidence& e : evidence) {
    if (e.rows != c.rows || e.cols != width) return std::nullopt;
    for (size_t r = 0, i = 0; r < rows.size(); ++r)
      for (size_t k = 0; k < cols.size(); ++k, ++i) rows[r] += e.wrong.at[i], cols[k] += e.wrong.at[i];
  }
  Sample s = {c, {}, {}, {most_of(rows, side), most_of(cols, c.is_gemm ? side : cols.size())}, {}};
  if (!c.is_gemm) std::sort(s.corner.cols.begin(), s.corner.cols.end());
  for (const Evidence& e : evidence) {
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

std::optional<Sample> band_of(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence) {
  constexpr int64_t wanted = int64_t{1} << 14, rows_of_a_square = 16;
  const QuantSpec spec = quant_spec_from_words(c.words);
  const int64_t rows = smaller(c.rows, (wanted / c.cols + rows_of_a_square) / rows_of_a_square * rows_of_a_square);
  const bool by_rows = !spec.has_scale() || spec.block.kind == BlockKind::vector || spec.block.kind == BlockKind::row;
  if (c.hadamard.size > 0 || !by_rows || !c.random_words.empty() || c.rows * c.cols < 8 * wanted) return std::nullopt;
  float amax = 0;
  bool has_nan = false;
  for (const float x : in.a) {
    has_nan = has_nan || is_nan(x);
    if (is_finite(x)) amax = larger(amax, magnitude(x));
  }
  if (has_nan || magnitude_bits(amax) < 0x00800000u) return std::nullopt;
  std::vector<uint64_t> differences(static_cast<size_t>(c.rows / rows), 0);
  std::vector<const Evidence*> seen;  // arrays of other orders are left to the look at the whole dump
  for (const Evidence& e : evidence) {
    const bool is_tensor = e.array == "tensor_scale" && e.expected.size() == 1;
    const bool lies_by_rows = e.array == "codes" || e.array == "scales" || e.array == "dequantized";
    if (!is_tensor && !lies_by_rows) continue;
    if (!e.is_matrix()) return std::nullopt;
    seen.push_back(&e);
    const auto size = static_cast<std::ptrdiff_t>(e.got.size()) / c.rows * rows;
    for (size_t i = 0; !is_tensor && i < differences.size(); ++i) {
      const auto at = e.wrong.at.begin() + static_cast<std::ptrdiff_t>(i) * size;
      differences[i] += static_cast<uint64_t>(std::count(at, at + size, 1));
    }
  }
  const auto most = std::max_element(differences.begin(), differences.end());
  if (*most == 0) return std::nullopt;
  const int64_t first = (most - differences.begin()) * rows;
  const auto begin = in.a.begin() + first * c.cols;
  Sample s = {c, {{begin, begin + rows * c.cols}, {}}, {first, amax}, {}, {}};
  s.c.rows = rows;
  for (const Evidence* e : seen) {
    const auto width = static_cast<int64_t>(e->got.size()) / c.rows;
    const auto cut = [&](const Words& all) {
      return e->array == "tensor_scale"
                 ? all
                 : Words(all.some(static_cast<size_t>(first * width), static_cast<size_t>(rows * width)));
    };
    s.evidence.push_back({e->array, e->stage, cut(e->expected), cut(e->got), e->type, e->zero});
  }
  return s;
}

bool works_by_rows(const Kernel& k) {
  const BlockShape& b = k.a.block;
  const bool by_rows = !k.a.has_scale() || b.kind == BlockKind::vector || b.kind == BlockKind::row ||
                       (b.kind == BlockKind::square && b.size <= 16);
  return by_rows && !k.codes_in && !k.scales_in && !k.other_operand && !k.swap_operand_axis &&
         k.misread[0] == nullptr && !(k.recodes() && k.a.draws_random_bits());
}

namespace {

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

void count_all(Score& s, uint64_t elements) { s.after += elements, s.after_zeros += elements, s.seen += elements; }

}  // namespace

std::optional<Score> order_score(const Case& c, const Kernel& k, const std::vector<Evidence>& evidence) {
  constexpr size_t some = size_t{1} << 12;
  Score s;
  bool is_any = false;
  for (const Evidence& e : evidence) {
    const bool of_codes = e.array == "codes", is_moved = of_codes ? k.codes_in.has_value() : k.scales_in.has_value();
    if ((!of_codes && e.array != "scales") || e.expected.size() < 64 * some) continue;
    const BlockGeometry g = geometry_of(k.a, c.rows, hadamard_padded(c.hadamard, c.cols));
    const int64_t rows = of_codes ? c.rows : g.scale_rows, cols = static_cast<int64_t>(e.expected.size()) / rows;
    const Placement at(of_codes ? row_of(code_layout_table, k.codes_in.value_or(CodeLayout::low_first)).placing
                                : row_of(scale_layout_table, k.scales_in.value_or(ScaleLayout::linear)).placing,
                       rows, cols);
    is_any = true;
    if ((is_moved ? at.size() : rows * cols) != static_cast<int64_t>(e.got.size())) {
      count_all(s, some);
      continue;
    }
    Elements now, before, got;
    for (uint64_t draw = 1; now.size() < some; draw = draw * 6364136223846793005u + 1442695040888963407u) {
      const auto i = static_cast<int64_t>((draw >> 16) % e.expected.size());
      const auto home = static_cast<size_t>(is_moved ? at.at(i / cols, i % cols) : i);
      now.push_back(e.expected[static_cast<size_t>(i)]), got.push_back(e.got[home]);
      before.push_back(e.is_matrix() ? e.expected[home] : 0);
    }
    count(s, e.zero, now, before, got, some, e.is_matrix());
  }
  return is_any ? std::optional(s) : std::nullopt;
}

Score score(const Simulator& simulator, const Kernel& kernel, const std::vector<Evidence>& evidence) {
  Score s;
  for (const Evidence& e : evidence) {
    Elements simulated = simulator.elements(kernel, e.array);
    round_words(e.type, simulated);
    if (!simulated.empty() && e.homes.at.size() == simulated.size())
      simulated = e.homes.plain(Words(std::move(simulated)));
    const Words there = simulated.empty() ? e.expected : Words(std::move(simulated));  // it may say nothing of an array
    if (there.size() != e.got.size()) {
      count_all(s, std::max({there.size(), e.got.size(), size_t{1}}));
      continue;
    }
    const bool same_size = e.expected.size() == e.got.size();
    constexpr size_t piece = size_t{1} << 14;
    Elements now(piece), before(piece), got(piece);
    for (size_t first = 0; first < there.size(); first += piece) {
      const size_t size = std::min(there.size() - first, piece);
      there.copy(first, size, now.data()), e.got.copy(first, size, got.data());
      if (same_size) e.expected.copy(first, size, before.data());
      count(s, e.zero, now, before, got, size, same_size);
    }
  }
  return s;
}

}  // namespace fp4::golden
