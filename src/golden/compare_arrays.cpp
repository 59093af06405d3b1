#include "src/golden/compare_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>

#include "src/files/large_pages.h"
#include "src/golden/faulty_kernel.h"

namespace fp4::golden {
namespace {

constexpr int64_t far = 1000;

// Order of floats as integers: -0 and +0 are one apart.
int64_t ordered(uint32_t bits) {
  const int64_t m = bits & 0x7FFFFFFFu;
  return (bits & float_sign_bit) != 0 ? -m - 1 : m;
}

struct Meaning {
  bool is_float = false;
  const FloatFormat* format = nullptr;  // of codes; null for plain numbers
};

bool means_nan(const Meaning& m, uint32_t word) {
  return m.is_float ? is_nan(float_of(word)) : m.format != nullptr && m.format->is_nan_code(word);
}

std::string text_of(const Meaning& m, uint32_t word) {
  if (!m.is_float && m.format == nullptr) return fmt::format("{}", word);
  const float v = m.is_float ? float_of(word) : decode(*m.format, word);
  return fmt::format("{}", v);
}

int64_t distance_of(const Meaning& m, uint32_t expected, uint32_t got, int64_t step) {
  int64_t d = 0;
  if (m.is_float) {
    d = ordered(got) - ordered(expected);
    if (step > 1) d /= step;
  } else if (m.format == nullptr) {
    d = static_cast<int64_t>(got) - static_cast<int64_t>(expected);
  } else {
    const auto signed_code = [&](uint32_t c) {
      const int64_t magnitude_code = c & m.format->magnitude_mask();
      return (c & m.format->sign_code()) != 0 ? -magnitude_code - 1 : magnitude_code;
    };
    d = signed_code(got) - signed_code(expected);
  }
  return std::clamp(d, -far, far);
}

// Steps between numbers of a type in fp32 steps: bf16 drops 16 bits.
int64_t steps_of(RealType type) { return int64_t{1} << (24 - row_of(real_type_table, type).digits); }

size_t marked(const std::vector<uint8_t>& v) { return static_cast<size_t>(std::count(v.begin(), v.end(), 1)); }

// "3 of 8 rows, 12 of 16 blocks of 32; rows 4 to 6; all at position 5 of their block": as far as something is
// concentrated.
std::string describe(const ArrayPair& e, size_t block) {
  const auto height = static_cast<size_t>(e.rows), width = static_cast<size_t>(e.cols);
  std::vector<uint8_t> rows(height, 0), cols(width, 0), positions(block, 0), parity(2, 0);
  size_t blocks = 0;
  for (size_t r = 0; r < height; ++r) {
    const uint8_t* const wrong = &e.wrong.at[r * width];
    if (std::memchr(wrong, 1, width) == nullptr) continue;
    rows[r] = 1;
    for (size_t c = 0; c < width; c += block) {
      const size_t end = std::min(width, c + block);
      blocks += std::memchr(wrong + c, 1, end - c) != nullptr ? 1 : 0;
      for (size_t k = c; k < end; ++k) cols[k] |= wrong[k], parity[(r * width + k) % 2] |= wrong[k];
    }
  }
  for (size_t c = 0; c < width; ++c) positions[c % block] |= cols[c];
  std::string text = fmt::format("{} of {} rows, {} of {} blocks of {}", marked(rows), height, blocks,
                                 height * ((width + block - 1) / block), block);
  for (const std::string& range : {ranges_text(rows, "row"), ranges_text(cols, "column")})
    if (!range.empty()) text += "; " + range;
  if (block > 1 && marked(positions) == 1 && e.differences > 1)
    text += fmt::format("; all at position {} of their block",
                        std::find(positions.begin(), positions.end(), 1) - positions.begin());
  if (e.differences > 3 && parity[0] != parity[1])
    text += parity[1] != 0 ? "; all at odd indices" : "; all at even indices";
  return text;
}

// The elements of an array, its own when `packed` is 0.
Words words_of(const Array& a, int packed) {
  return {a.bytes, packed > 0 ? packed : static_cast<int>(8 * element_bytes(a)), a.dtype == "f32"};
}

void mark_differences(ArrayPair& e) {
  const auto width = static_cast<size_t>(e.cols);
  e.wrong = {e.rows, e.cols, large_vector<uint8_t>(e.got.size())};
  std::atomic<uint64_t> differences = 0;
  for_bands(e.rows, e.cols, [&](int64_t first, int64_t last) {
    Elements x(width), y(width);
    for (int64_t r = first; r < last; ++r) {
      e.copy_row(r, x, y);
      uint8_t* const wrong = &e.wrong.at[static_cast<size_t>(r) * width];
      uint32_t count = 0;
      for (size_t c = 0; c < width; ++c) {
        wrong[c] = x[c] != y[c] ? 1 : 0;
        count += wrong[c];
      }
      differences += count;
    }
  });
  e.differences = differences;
}

// What beyond the last row or column is not zero.
void count_padding(const ArrayPair& e, const Words& stored, const Meaning& meaning, Comparison& r) {
  for (size_t i = 0; i < e.homes.at.size(); ++i) {
    if (e.homes.at[i] >= 0) continue;
    --r.compared;
    r.padding += stored[i] != 0 ? 1 : 0;
    r.padding_nan += e.stage == "scales" && means_nan(meaning, stored[i]) ? 1 : 0;
  }
}

// How far apart what differs is: by distances, of codes up to 255 by pairs of expected and got.
struct Distances {
  std::vector<uint64_t> at, pairs;
  uint64_t nan_against_number = 0;
  explicit Distances(bool is_float) : at(2 * far + 1, 0), pairs(is_float ? 0 : size_t{1} << 16, 0) {}
  void add(const Meaning& meaning, uint32_t expected, uint32_t got, int64_t step, uint64_t times = 1) {
    if (means_nan(meaning, expected) != means_nan(meaning, got))
      nan_against_number += times;
    else
      at[static_cast<size_t>(distance_of(meaning, expected, got, step) + far)] += times;
  }
  Distances& operator+=(const Distances& o) {
    nan_against_number += o.nan_against_number;
    std::transform(at.begin(), at.end(), o.at.begin(), at.begin(), std::plus<>());
    std::transform(pairs.begin(), pairs.end(), o.pairs.begin(), pairs.begin(), std::plus<>());
    return *this;
  }
};

void count_differences(const ArrayPair& e, const Meaning& meaning, Comparison& r) {
  const int64_t step = steps_of(e.type);
  const auto width = static_cast<size_t>(e.cols);
  Distances all(meaning.is_float);
  std::mutex mutex;
  const auto count = [&](int64_t first, int64_t last) {
    Distances mine(meaning.is_float);
    Elements expected(width), got(width);
    for (int64_t row = first; row < last; ++row) {
      const size_t begin = static_cast<size_t>(row) * width;
      const uint8_t* const wrong = &e.wrong.at[begin];
      if (std::memchr(wrong, 1, width) == nullptr) continue;
      e.copy_row(row, expected, got);
      for (size_t k = 0; k < width; ++k) {
        if (wrong[k] == 0) continue;
        if (!meaning.is_float && (expected[k] | got[k]) < 256)
          ++mine.pairs[expected[k] << 8 | got[k]];
        else
          mine.add(meaning, expected[k], got[k], step);
      }
    }
    const std::lock_guard lock(mutex);
    all += mine;
  };
  for_bands(e.rows, e.cols, count, int64_t{1} << 22);
  for (uint32_t i = 0; i < all.pairs.size(); ++i)
    if (all.pairs[i] > 0) all.add(meaning, i >> 8, i & 255u, step, all.pairs[i]);
  r.nan_against_number = all.nan_against_number;
  for (size_t d = 0; d < all.at.size(); ++d)
    if (all.at[d] > 0) r.distance[static_cast<int64_t>(d) - far] = all.at[d];
  const uint64_t shown = std::min<uint64_t>(e.differences, 10);
  for (auto at = e.wrong.at.begin(); r.first.size() < shown; ++at) {
    at = std::find(at, e.wrong.at.end(), 1);
    const auto i = static_cast<size_t>(at - e.wrong.at.begin());
    const uint32_t expected = e.expected.raw(i), got = e.got.raw(i);
    r.first.push_back({{i / width, i % width}, expected, got, text_of(meaning, expected), text_of(meaning, got)});
  }
}

}  // namespace

int packed_bits(const Case& c, const std::string& array) {
  const ArrayName name = parse_array_name(array);
  const int bits = row_of(code_layout_table, name.code_layout).bits;
  return name.stage == "codes" && bits == code_bits(c) && bits < 8 ? bits : 0;
}

Elements elements_of(const Array& a, int packed_bits) {
  return Words(a.bytes, packed_bits > 0 ? packed_bits : static_cast<int>(8 * element_bytes(a))).all();
}

Words candidate_words(const Case& c, const CandidateArray& candidate, size_t expected) {
  const Array& a = candidate.array;
  const bool is_float = a.dtype == "f32";
  const int width = candidate.stage == "codes" && !is_float ? code_bits(c) : 0;
  bool one_each = a.bytes.size() == expected * element_bytes(a);
  for (size_t i = 0; width == 4 && one_each && i < expected; ++i)
    one_each = word_at(a, i) <= 15;  // else two codes a byte that the layout padded to this size
  if (!one_each && (width == 4 || width == 6)) return words_of(a, width);
  return words_of(a, one_each || candidate.stage != "scales" || is_float ? 0 : 8);  // four scales an int32
}

Elements Homes::plain(const Words& stored) const {
  Elements out(at.size());
  size_t size = 0;
  for (size_t i = 0; i < at.size(); ++i)
    if (at[i] >= 0) out[static_cast<size_t>(at[i])] = stored[i], ++size;
  out.resize(size);
  return out;
}

void ArrayPair::copy_row(int64_t r, Elements& x, Elements& y) const {
  const auto width = static_cast<size_t>(cols);
  expected.copy(static_cast<size_t>(r) * width, width, x.data());
  got.copy(static_cast<size_t>(r) * width, width, y.data());
  for (size_t i = 0; i < width && may_be_any; ++i) y[i] = x[i] == any_element ? x[i] : y[i];
}

ArrayPair evidence_of(const Case& c, const CandidateArray& a, const Array& golden, const std::vector<bool>& unjudged) {
  const ArrayName name = parse_array_name(a.golden);
  const bool is_float = golden.dtype == "f32", gives_floats = a.array.dtype == "f32";
  ArrayPair e = {
      a.golden, name.stage, words_of(golden, packed_bits(c, a.golden)), {}, is_float ? a.type : RealType::fp32};
  const bool is_finished = is_float && c.epilogue.is_said() && (name.stage == "output" || name.stage == "dequantized");
  if (is_finished || e.type != RealType::fp32) {
    std::vector<float> values = floats_of(golden);
    if (is_finished) c.epilogue.apply(values, c.is_gemm ? c.rows_b : c.cols);
    for (float& v : values) v = canonical(rounded_to(e.type, v));
    const auto* bits = reinterpret_cast<const uint32_t*>(values.data());
    e.expected = Words(Elements(bits, bits + values.size()));
  }
  if (gives_floats || !is_float) e.got = candidate_words(c, a, e.expected.size());
  e.zero = gives_floats         ? float_sign_bit
           : a.stage == "codes" ? format_of(quant_spec_from_words(c.words).element).sign_code()
                                : 0;
  e.rows = golden.shape.size() == 2 ? static_cast<int64_t>(golden.shape[0]) : 1;
  if (e.got.size() != e.expected.size()) return e;
  e.homes = homes_of(c, a.golden);
  if (e.homes.at.size() != e.got.size()) e.homes = {};
  if (!e.homes.at.empty()) {
    e.expected = Words(e.homes.plain(e.expected)), e.got = Words(e.homes.plain(e.got));
    e.rows = static_cast<int64_t>(e.got.size()) / e.homes.cols;
  }
  e.may_be_any = std::find(unjudged.begin(), unjudged.end(), true) != unjudged.end();
  if (e.may_be_any) {
    Elements expected = e.expected.all();
    for (size_t i = 0; i < unjudged.size(); ++i)
      if (unjudged[i]) expected[i] = any_element;
    e.expected = Words(std::move(expected));
  }
  e.cols = static_cast<int64_t>(e.got.size()) / std::max<int64_t>(e.rows, 1);
  if (e.is_matrix()) mark_differences(e);
  return e;
}

std::vector<bool> codes_of_nan_blocks(const Bundle& bundle, const Case& c, const std::string& array) {
  const ArrayName name = parse_array_name(array);
  const std::string scales = name.is_transposed ? "scales_transposed" : "scales";
  const QuantSpec spec = quant_spec_from_words(c.words);
  if (name.stage != "codes" || c.is_gemm || !c.stored.contains(scales)) return {};
  const Array& stored = load_array(bundle, c, scales);
  const FloatFormat& format = format_of(spec.scale);
  const auto is_nan_at = [&](size_t block) {
    return stored.dtype == "f32" ? is_nan(float_of(word_at(stored, block)))
                                 : format.is_nan_code(word_at(stored, block));
  };
  const size_t blocks = stored.bytes.size() / element_bytes(stored);
  bool any = false;
  for (size_t block = 0; block < blocks && !any; ++block) any = is_nan_at(block);
  if (!any) return {};
  const int64_t rows = name.is_transposed ? c.cols : c.rows, cols = name.is_transposed ? c.rows : c.cols;
  const BlockGeometry g = geometry_of(spec, rows, hadamard_padded(c.hadamard, cols));
  const int64_t width = has_fp4_codes(c) ? (g.padded_cols + 1) / 2 * 2 : g.padded_cols;
  std::vector<bool> in_block(static_cast<size_t>(rows * width), false);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < g.padded_cols; ++k)
      in_block[static_cast<size_t>(r * width + k)] =
          is_nan_at(static_cast<size_t>(r / g.block_rows * g.scale_cols + k / g.block_cols));
  return in_block;
}

ArrayPair evidence_of(const Bundle& bundle, const Case& c, const CandidateArray& a) {
  return evidence_of(c, a, load_array(bundle, c, a.golden), codes_of_nan_blocks(bundle, c, a.golden));
}

void add_payloads(const Bundle& bundle, const Case& c, Comparison& comparison) {
  const ArrayName name = parse_array_name(comparison.golden);
  const QuantSpec spec = quant_spec_from_words(c.words);
  const bool stores_factor = spec.decode == Decode::scale_then_tensor || spec.decode == Decode::factor_first;
  if (comparison.first.empty() || (name.stage != "codes" && name.stage != "dequantized") || c.is_gemm ||
      name.is_transposed || c.hadamard.size > 0 || !c.stored.contains("scales") || !stores_factor ||
      spec.scale_rule == ScaleRule::encode)
    return;
  const std::string kept[] = {"scales", "tensor_scale"};  // g++ 14 fears for references got by a temporary
  const Array &scales = load_array(bundle, c, kept[0]), &factor = load_array(bundle, c, kept[1]);
  if (factor.bytes.size() != sizeof(float)) return;
  const std::vector<float>& x = load_inputs(bundle, c).a;
  const BlockGeometry g = geometry_of(spec, c.rows, c.cols);
  const auto prescale = static_cast<double>(spec.prescale);
  for (Mismatch& m : comparison.first) {
    const auto row = static_cast<int64_t>(m.index[0]), k = static_cast<int64_t>(m.index[1]);
    if (row >= c.rows || k >= c.cols) continue;
    const uint32_t code = word_at(scales, static_cast<size_t>(row / g.block_rows * g.scale_cols + k / g.block_cols));
    const float scale = scales.dtype == "f32" ? float_of(code) : decode(format_of(spec.scale), code);
    m.x = static_cast<double>(x[static_cast<size_t>(row * c.cols + k)]);
    m.scale = static_cast<double>(scale) * static_cast<double>(float_of(word_at(factor, 0)));
    m.payload = prescale * *m.x / *m.scale;
  }
}

Homes homes_of(const Case& c, const std::string& array) {
  const ArrayName name = parse_array_name(array);
  const auto plain = c.stored.find(name.part);
  const bool is_scale = name.stage == "scales" && name.scale_layout != ScaleLayout::linear;
  const bool is_code = name.stage == "codes" && name.code_layout != CodeLayout::low_first;
  if ((!is_scale && !is_code) || plain == c.stored.end() || plain->second.shape.size() != 2) return {};
  const auto rows = static_cast<int64_t>(plain->second.shape[0]);
  const int64_t cols = static_cast<int64_t>(plain->second.shape[1]) * (is_code && has_fp4_codes(c) ? 2 : 1);
  const Placement place(is_scale ? row_of(scale_layout_table, name.scale_layout).placing
                                 : row_of(code_layout_table, name.code_layout).placing,
                        rows, cols);
  Homes homes = {cols, std::vector<int64_t>(static_cast<size_t>(place.size()), -1)};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < cols; ++k) homes.at[static_cast<size_t>(place.at(r, k))] = r * cols + k;
  return homes;
}

Comparison compare(const Case& c, const CandidateArray& candidate, const Array& golden, const ArrayPair& e) {
  Comparison r = {c.name, candidate.stage, candidate.golden};
  const QuantSpec spec = quant_spec_from_words(c.words);
  Meaning meaning = {golden.dtype == "f32"};
  if (candidate.stage != input_stage)
    meaning.format = candidate.stage == "codes" ? &format_of(spec.element) : &format_of(spec.scale);
  const bool same_kind = (candidate.array.dtype == "f32") == meaning.is_float;
  r.compared = e.homes.at.empty() ? e.expected.size() : e.homes.at.size();
  if (!same_kind) {
    r.shape_note =
        fmt::format("the candidate has {}, the golden array {}", meaning.is_float ? "whole numbers" : "real numbers",
                    meaning.is_float ? "real" : "codes");
  } else if (e.got.size() != e.expected.size()) {
    r.shape_note = fmt::format("the candidate has {} elements, the golden array {}", e.got.size(), e.expected.size());
  }
  if (!r.shape_note.empty()) {
    r.mismatches = std::max<uint64_t>(r.compared, 1);
    return r;
  }
  if (!e.homes.at.empty()) count_padding(e, candidate_words(c, candidate, r.compared), meaning, r);
  for (size_t i = 0; i < e.expected.size() && e.may_be_any; ++i) r.unjudged += e.expected[i] == any_element ? 1 : 0;
  r.compared -= r.unjudged;
  r.mismatches = e.differences;
  if (r.mismatches == 0) return r;
  count_differences(e, meaning, r);
  r.where = describe(e, candidate.stage == "codes" || candidate.stage == "dequantized"
                            ? static_cast<size_t>(std::max(spec.block.size, 1))
                        : candidate.stage == "output" ? 16
                                                      : 4);
  return r;
}

}  // namespace fp4::golden
