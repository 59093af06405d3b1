#include "src/golden/compare_arrays.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/golden/faulty_kernel.h"
#include "src/golden/places.h"
#include "src/golden/variants.h"

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
    d = (ordered(got) - ordered(expected)) / step;
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

// "3 of 8 rows, 12 of 16 blocks of 32; rows 4 to 6; all at position 5 of their block": as far as something is
// concentrated.
std::string describe(const std::vector<uint8_t>& wrong, uint64_t width, uint64_t block) {
  const size_t height = std::max<size_t>(wrong.size() / width, 1), across = (width + block - 1) / block;
  std::vector<uint8_t> rows(height, 0), cols(width, 0), blocks(height * across, 0), positions(block, 0), parity(2, 0);
  for (size_t r = 0, i = 0; r < height; ++r)
    for (size_t c = 0; c < width; ++c, ++i) {
      if (wrong[i] == 0) continue;
      rows[r] = cols[c] = blocks[r * across + c / block] = positions[c % block] = 1;
      parity[i % 2] = 1;
    }
  const auto marked = [](const std::vector<uint8_t>& v) { return std::count(v.begin(), v.end(), 1); };
  std::string text =
      fmt::format("{} of {} rows, {} of {} blocks of {}", marked(rows), height, marked(blocks), blocks.size(), block);
  for (const std::string& range : {ranges_text(rows, "row"), ranges_text(cols, "column")})
    if (!range.empty()) text += "; " + range;
  if (block > 1 && marked(positions) == 1 && marked(wrong) > 1)
    text += fmt::format("; all at position {} of their block",
                        std::find(positions.begin(), positions.end(), 1) - positions.begin());
  if (marked(wrong) > 3 && parity[0] != parity[1])
    text += parity[1] != 0 ? "; all at odd indices" : "; all at even indices";
  return text;
}

}  // namespace

int packed_bits(const Case& c, const std::string& array) {
  const ArrayName name = parse_array_name(array);
  const int bits = row_of(code_layout_table, name.code_layout).bits;
  return name.stage == "codes" && bits == code_bits(c) && bits < 8 ? bits : 0;
}

std::vector<uint32_t> elements_of(const Array& a, int packed_bits) {
  std::vector<uint32_t> out;
  if (packed_bits > 0) {
    const auto bits = static_cast<size_t>(packed_bits);
    for (size_t at = 0; at + bits <= 8 * a.bytes.size(); at += bits) {
      const bool crosses = at % 8 + bits > 8;
      const uint32_t word = a.bytes[at / 8] | (crosses ? uint32_t{a.bytes[at / 8 + 1]} << 8 : 0u);
      out.push_back(word >> at % 8 & ((1u << bits) - 1u));
    }
    return out;
  }
  out.reserve(a.bytes.size() / element_bytes(a));
  for (size_t i = 0; i < a.bytes.size() / element_bytes(a); ++i) out.push_back(word_at(a, i));
  return out;
}

std::vector<uint32_t> candidate_elements(const Case& c, const CandidateArray& candidate, size_t expected) {
  const bool is_float = candidate.array.dtype == "f32";
  const int width = candidate.stage == "codes" && !is_float ? code_bits(c) : 0;
  bool one_each = candidate.array.bytes.size() == expected * element_bytes(candidate.array);
  for (size_t i = 0; width == 4 && one_each && i < expected; ++i)
    one_each = word_at(candidate.array, i) <= 15;  // else two codes a byte that the layout padded to this size
  if (!one_each && (width == 4 || width == 6)) return elements_of(candidate.array, width);
  if (one_each || candidate.stage != "scales" || is_float) return elements_of(candidate.array, 0);
  return {candidate.array.bytes.begin(), candidate.array.bytes.end()};  // four scales an int32
}

std::vector<bool> codes_of_nan_blocks(const Bundle& bundle, const Case& c, const std::string& array) {
  const ArrayName name = parse_array_name(array);
  const std::string scales = name.is_transposed ? "scales_transposed" : "scales";
  const QuantSpec spec = quant_spec_from_words(c.words);
  if (name.stage != "codes" || c.is_gemm || !c.stored.contains(scales)) return {};
  const Array stored = load_array(bundle, c, scales);
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
  Elements in_block(static_cast<size_t>(rows * width), 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < g.padded_cols; ++k)
      in_block[static_cast<size_t>(r * width + k)] =
          is_nan_at(static_cast<size_t>(r / g.block_rows * g.scale_cols + k / g.block_cols)) ? 1 : 0;
  in_block = in_code_layout(in_block, name.code_layout, rows, 0);
  return {in_block.begin(), in_block.end()};
}

void add_payloads(const Bundle& bundle, const Case& c, Comparison& comparison) {
  const ArrayName name = parse_array_name(comparison.golden);
  const QuantSpec spec = quant_spec_from_words(c.words);
  const bool stores_factor = spec.decode == Decode::scale_then_tensor || spec.decode == Decode::factor_first;
  if (comparison.first.empty() || (name.stage != "codes" && name.stage != "dequantized") || c.is_gemm ||
      name.is_transposed || c.hadamard.size > 0 || !c.stored.contains("scales") || !stores_factor ||
      spec.scale_rule == ScaleRule::encode)
    return;
  const Array scales = load_array(bundle, c, "scales"), factor = load_array(bundle, c, "tensor_scale");
  if (factor.bytes.size() != sizeof(float)) return;
  const std::vector<float> x = load_inputs(bundle, c).a;
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

Comparison compare(const Case& c, const CandidateArray& candidate, const Array& golden,
                   const std::vector<bool>& unjudged) {
  Comparison r;
  r.case_name = c.name;
  r.stage = candidate.stage;
  r.golden = candidate.golden;
  const QuantSpec spec = quant_spec_from_words(c.words);
  Meaning meaning;
  meaning.is_float = golden.dtype == "f32";
  if (candidate.stage != input_stage)
    meaning.format = candidate.stage == "codes" ? &format_of(spec.element) : &format_of(spec.scale);
  const int packed = packed_bits(c, candidate.golden);
  std::vector<uint32_t> expected = elements_of(golden, packed);
  round_words(candidate.type, expected);
  Homes homes = homes_of(c, candidate.golden);
  if (homes.at.size() != expected.size()) homes = {};
  uint64_t width = golden.shape.empty() ? 1 : golden.shape.back();
  if (!homes.at.empty())
    width = static_cast<uint64_t>(homes.cols);
  else if (packed > 0)
    width = width * 8 * element_bytes(golden) / static_cast<uint64_t>(packed);
  const std::vector<uint32_t> got = candidate_elements(c, candidate, expected.size());
  r.compared = expected.size();
  if ((candidate.array.dtype == "f32") != meaning.is_float) {
    r.shape_note =
        fmt::format("the candidate has {}, the golden array {}", meaning.is_float ? "whole numbers" : "real numbers",
                    meaning.is_float ? "real" : "codes");
  } else if (got.size() != expected.size()) {
    r.shape_note = fmt::format("the candidate has {} elements, the golden array {}", got.size(), expected.size());
  }
  if (!r.shape_note.empty()) {
    r.mismatches = std::max<uint64_t>(r.compared, 1);
    return r;
  }
  const int64_t step = steps_of(candidate.type);
  std::vector<uint8_t> wrong(homes.at.empty() ? expected.size() : 0, 0);
  for (const int64_t home : homes.at) wrong.resize(std::max(wrong.size(), static_cast<size_t>(home + 1)));
  for (uint64_t i = 0; i < expected.size(); ++i) {
    if (!homes.at.empty() && homes.at[i] < 0) {
      --r.compared;
      r.padding += got[i] != 0 ? 1 : 0;
      r.padding_nan += candidate.stage == "scales" && means_nan(meaning, got[i]) ? 1 : 0;
      continue;
    }
    if (i < unjudged.size() && unjudged[i]) {
      ++r.unjudged;
      --r.compared;
      continue;
    }
    if (expected[i] == got[i]) continue;
    const bool nan_expected = means_nan(meaning, expected[i]), nan_got = means_nan(meaning, got[i]);
    if (meaning.is_float && nan_expected && nan_got) continue;
    const uint64_t home = homes.at.empty() ? i : static_cast<uint64_t>(homes.at[i]);
    wrong[home] = 1;
    ++r.mismatches;
    if (nan_expected != nan_got) {
      ++r.nan_against_number;
    } else {
      ++r.distance[distance_of(meaning, expected[i], got[i], step)];
    }
    if (r.first.size() < 10) {
      r.first.push_back(
          {{home / width, home % width}, expected[i], got[i], text_of(meaning, expected[i]), text_of(meaning, got[i])});
    }
  }
  const uint64_t block = candidate.stage == "codes" || candidate.stage == "dequantized"
                             ? static_cast<uint64_t>(std::max(spec.block.size, 1))
                             : (candidate.stage == "output" ? 16 : 4);
  if (r.mismatches > 0) r.where = describe(wrong, width, block);
  return r;
}

}  // namespace fp4::golden
