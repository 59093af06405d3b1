#include "src/golden/dump_evidence.h"

#include <algorithm>
#include <type_traits>

namespace fp4::golden {
namespace {

bool is_same(uint32_t simulated, uint32_t got) { return (simulated == got) | (simulated == any_element); }

// Zeros of both signs as one number.
uint32_t unsigned_zero(uint32_t element, uint32_t zero) { return element == zero ? 0 : element; }

void merge_nans(Elements& floats) {
  for (uint32_t& word : floats)
    if (is_nan(float_of(word))) word = canonical_nan_bits;
}

}  // namespace

std::vector<Evidence> gather(const Case& c, const std::vector<CandidateArray>& arrays, const std::vector<Array>& golden,
                             const Simulator& simulator) {
  std::vector<Evidence> out;
  const FloatFormat& element = format_of(quant_spec_from_words(c.words).element);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const CandidateArray& a = arrays[i];
    const bool is_float = golden[i].dtype == "f32";
    // Codes may be dumped as the numbers that they stand for.
    const bool same_kind = a.array.dtype == "f32" || !is_float;
    Elements expected = elements_of(golden[i], packed_bits(c, a.golden));
    const RealType type = is_float ? a.type : RealType::fp32;
    round_words(type, expected);
    Evidence e = {a.golden, expected, same_kind ? candidate_elements(c, a, expected.size()) : Elements{}, type};
    if (a.array.dtype == "f32") {
      merge_nans(e.got);
      if (is_float) merge_nans(e.expected);
      e.zero = float_sign_bit;
    } else if (a.stage == "codes") {
      e.zero = element.sign_code();
    }
    const Elements own = simulator.elements(simulator.base(), a.golden);
    for (size_t k = 0; k < own.size() && own.size() == e.expected.size(); ++k)
      if (own[k] == any_element) e.expected[k] = any_element;
    out.push_back(std::move(e));
  }
  return out;
}

namespace {

// The rows and columns of a product that differ most.
std::optional<Sample> corner_of(const Case& c, const std::vector<Evidence>& evidence) {
  constexpr size_t side = 24;
  Sample s = {c, {}, {}, {}, evidence};
  if (c.rows * c.rows_b < 8 * static_cast<int64_t>(side * side)) return std::nullopt;
  const auto width = static_cast<size_t>(c.rows_b);
  std::vector<std::pair<int64_t, int64_t>> rows(static_cast<size_t>(c.rows)), cols(width);  // differences, number
  for (size_t i = 0; i < rows.size(); ++i) rows[i].second = static_cast<int64_t>(i);
  for (size_t i = 0; i < cols.size(); ++i) cols[i].second = static_cast<int64_t>(i);
  for (const Evidence& e : evidence) {
    if (e.got.size() != rows.size() * width || e.expected.size() != e.got.size()) return std::nullopt;
    for (size_t i = 0; i < e.got.size(); ++i)
      if (e.got[i] != e.expected[i]) --rows[i / width].first, --cols[i % width].first;
  }
  for (auto* lines : {&rows, &cols}) std::sort(lines->begin(), lines->end());
  for (size_t i = 0; i < std::min(side, rows.size()); ++i) s.corner.rows.push_back(rows[i].second);
  for (size_t i = 0; i < std::min(side, cols.size()); ++i) s.corner.cols.push_back(cols[i].second);
  for (Evidence& e : s.evidence) {
    Evidence some = {e.array, {}, {}, e.type, e.zero};
    for (const int64_t i : s.corner.rows)
      for (const int64_t j : s.corner.cols) {
        some.expected.push_back(e.expected[static_cast<size_t>(i) * width + static_cast<size_t>(j)]);
        some.got.push_back(e.got[static_cast<size_t>(i) * width + static_cast<size_t>(j)]);
      }
    e = std::move(some);
  }
  return s;
}

}  // namespace

std::optional<Sample> sample_of(const Case& c, const CaseInputs& in, const std::vector<Evidence>& evidence) {
  constexpr int64_t wanted = int64_t{1} << 14, rows_of_a_square = 16;
  if (c.is_gemm) return corner_of(c, evidence);
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
  // The rows with most differences.
  std::vector<uint64_t> differences(static_cast<size_t>(c.rows / rows), 0);
  std::vector<Evidence> seen;  // arrays of other orders are left to the look at the whole dump
  for (const Evidence& e : evidence) {
    const bool is_tensor = e.array == "tensor_scale" && e.expected.size() == 1;
    const bool lies_by_rows = e.array == "codes" || e.array == "scales" || e.array == "dequantized";
    if (!is_tensor && !lies_by_rows) continue;
    if (e.got.size() != e.expected.size()) return std::nullopt;
    seen.push_back(e);
    const size_t width = e.expected.size() / static_cast<size_t>(c.rows);
    for (size_t i = 0; !is_tensor && i < differences.size() * static_cast<size_t>(rows) * width; ++i)
      differences[i / (static_cast<size_t>(rows) * width)] += is_same(e.expected[i], e.got[i]) ? 0 : 1;
  }
  const auto most = std::max_element(differences.begin(), differences.end());
  if (*most == 0) return std::nullopt;
  const int64_t first = (most - differences.begin()) * rows;
  const auto cut = [&](const auto& all) {
    const auto width = static_cast<std::ptrdiff_t>(all.size()) / c.rows;
    return std::decay_t<decltype(all)>(all.begin() + first * width, all.begin() + (first + rows) * width);
  };
  Sample s = {c, {cut(in.a), {}}, {first, amax}, {}, seen};
  s.c.rows = rows;
  for (Evidence& e : s.evidence)
    if (e.array != "tensor_scale") e.expected = cut(e.expected), e.got = cut(e.got);
  return s;
}

bool works_by_rows(const Kernel& k) {
  const BlockShape& b = k.a.block;
  const bool by_rows = !k.a.has_scale() || b.kind == BlockKind::vector || b.kind == BlockKind::row ||
                       (b.kind == BlockKind::square && b.size <= 16);
  return by_rows && !k.codes_in && !k.scales_in && !k.other_operand && !k.swap_operand_axis &&
         k.misread[0] == nullptr && !(k.recodes() && k.a.draws_random_bits());
}

Score score(const Simulator& simulator, const Kernel& kernel, const std::vector<Evidence>& evidence) {
  Score s;
  for (const Evidence& e : evidence) {
    Elements simulated = simulator.elements(kernel, e.array);
    round_words(e.type, simulated);
    const Elements& there = simulated.empty() ? e.expected : simulated;  // a kernel may say nothing of an array
    if (there.size() != e.got.size()) {
      const uint64_t all = std::max({there.size(), e.got.size(), size_t{1}});
      s.after += all;
      s.after_zeros += all;
      s.seen += all;
      continue;
    }
    const bool same_size = e.expected.size() == e.got.size();
    constexpr size_t piece = size_t{1} << 20;  // whose counts are words, so that compilers take vectors
    for (size_t first = 0; first < there.size(); first += piece) {
      const size_t end = std::min(there.size(), first + piece);
      uint32_t after = 0, after_zeros = 0, seen = 0, predicted = 0, found = 0;
      for (size_t i = first; i < end; ++i) {
        const uint32_t got = unsigned_zero(e.got[i], e.zero), now = unsigned_zero(there[i], e.zero);
        const uint32_t before = same_size ? unsigned_zero(e.expected[i], e.zero) : ~now;
        const uint32_t predicts = (now != before) & (now != any_element), differs = !is_same(before, got);
        after += !is_same(there[i], e.got[i]);
        after_zeros += !is_same(now, got);
        seen += differs;
        predicted += predicts;
        found += predicts & (now == got) & differs;
      }
      s.after += after, s.after_zeros += after_zeros, s.seen += seen, s.predicted += predicted, s.found += found;
    }
  }
  return s;
}

}  // namespace fp4::golden
