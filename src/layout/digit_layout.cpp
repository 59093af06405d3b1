#include "src/layout/digit_layout.h"

#include <fmt/format.h>

#include "src/text/error.h"

namespace fp4::golden {
namespace {

int64_t rounded_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

template <class Table>
auto layout_of_word(const Table& table, const std::string& place, const std::string& word) {
  if (const auto* row = find_row(table, word)) return row->id;
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  throw unknown_word(place, word, names);
}

void expect_size(const std::string& place, const char* layout, size_t has, int64_t wants, int64_t rows, int64_t cols) {
  if (static_cast<int64_t>(has) != wants)
    throw Error(fmt::format("{}: {} bytes; {} x {} in layout {} has {}", place, has, rows, cols, layout, wants));
}

}  // namespace

std::string address_text(const Placing& placing) {
  std::string text;
  for (const Digit& d : placing.digits) {
    if (d.axis == 0) break;
    std::string digit(1, d.axis);
    if (d.step > 1) digit += fmt::format("/{}", d.step);
    if (d.extent > 0) digit += fmt::format("%{}", d.extent);
    if (d.flipped) digit = fmt::format("{}-{}", d.extent - 1, digit);
    text += (text.empty() ? "" : ", ") + digit;
  }
  if (placing.row_multiple > 1 || placing.col_multiple > 1)
    text += fmt::format("; padded to {} x {}", placing.row_multiple, placing.col_multiple);
  return text;
}

Placement::Placement(const Placing& placing, int64_t rows, int64_t cols)
    : row_part_(static_cast<size_t>(rows)), col_part_(static_cast<size_t>(cols)) {
  const int64_t padded_rows = rounded_up(rows, placing.row_multiple);
  const int64_t padded_cols = rounded_up(cols, placing.col_multiple);
  size_ = padded_rows * padded_cols;
  int64_t weight = 1;
  size_t count = 0;
  while (count < std::size(placing.digits) && placing.digits[count].axis != 0) ++count;
  for (size_t i = count; i-- > 0;) {
    const Digit& d = placing.digits[i];
    const bool is_row = d.axis == 'r';
    const int64_t extent = d.extent > 0 ? d.extent : (is_row ? padded_rows : padded_cols) / d.step;
    std::vector<int64_t>& part = is_row ? row_part_ : col_part_;
    for (size_t index = 0; index < part.size(); ++index) {
      const int64_t digit = static_cast<int64_t>(index) / d.step % extent;
      part[index] += weight * (d.flipped ? extent - 1 - digit : digit);
    }
    weight *= extent;
  }
}

int64_t padded_size(ScaleLayout layout, int64_t rows, int64_t cols) {
  const Placing& p = row_of(scale_layout_table, layout).placing;
  return rounded_up(rows, p.row_multiple) * rounded_up(cols, p.col_multiple);
}

std::vector<uint8_t> to_layout(ScaleLayout layout, const std::vector<uint8_t>& scales, int64_t rows, int64_t cols) {
  const Placement place(row_of(scale_layout_table, layout).placing, rows, cols);
  std::vector<uint8_t> out(static_cast<size_t>(place.size()), 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      out[static_cast<size_t>(place.at(r, c))] = scales[static_cast<size_t>(r * cols + c)];
  return out;
}

std::vector<uint8_t> from_layout(ScaleLayout layout, const std::vector<uint8_t>& stored, int64_t rows, int64_t cols,
                                 const std::string& place) {
  const ScaleLayoutInfo& info = row_of(scale_layout_table, layout);
  expect_size(place, info.name, stored.size(), padded_size(layout, rows, cols), rows, cols);
  const Placement at(info.placing, rows, cols);
  std::vector<uint8_t> out(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      out[static_cast<size_t>(r * cols + c)] = stored[static_cast<size_t>(at.at(r, c))];
  return out;
}

int64_t padded_bytes(CodeLayout layout, int64_t rows, int64_t cols) {
  const CodeLayoutInfo& info = row_of(code_layout_table, layout);
  const Placing& p = info.placing;
  return rounded_up(rows, p.row_multiple) * rounded_up(cols, p.col_multiple) * info.bits / 8;
}

std::vector<uint8_t> to_layout(CodeLayout layout, const std::vector<uint8_t>& codes, int64_t rows, int64_t cols) {
  const CodeLayoutInfo& info = row_of(code_layout_table, layout);
  const Placement place(info.placing, rows, cols);
  const int mask = (1 << info.bits) - 1;
  std::vector<uint8_t> out(static_cast<size_t>(padded_bytes(layout, rows, cols)), 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t bit = place.at(r, c) * info.bits;
      const int word = (codes[static_cast<size_t>(r * cols + c)] & mask) << bit % 8;
      const auto byte = static_cast<size_t>(bit / 8);
      out[byte] = static_cast<uint8_t>(out[byte] | word);
      if (word > 255) out[byte + 1] = static_cast<uint8_t>(out[byte + 1] | word >> 8);
    }
  return out;
}

std::vector<uint8_t> from_layout(CodeLayout layout, const std::vector<uint8_t>& stored, int64_t rows, int64_t cols,
                                 const std::string& place) {
  const CodeLayoutInfo& info = row_of(code_layout_table, layout);
  expect_size(place, info.name, stored.size(), padded_bytes(layout, rows, cols), rows, cols);
  const Placement at(info.placing, rows, cols);
  const int mask = (1 << info.bits) - 1;
  std::vector<uint8_t> out(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t bit = at.at(r, c) * info.bits;
      const auto byte = static_cast<size_t>(bit / 8);
      const bool crosses = bit % 8 + info.bits > 8;
      const int word = stored[byte] | (crosses ? stored[byte + 1] << 8 : 0);
      out[static_cast<size_t>(r * cols + c)] = static_cast<uint8_t>(word >> bit % 8 & mask);
    }
  return out;
}

ScaleLayout scale_layout_of(const std::string& place, const std::string& word) {
  return layout_of_word(scale_layout_table, place, word);
}
CodeLayout code_layout_of(const std::string& place, const std::string& word) {
  return layout_of_word(code_layout_table, place, word);
}

}  // namespace fp4::golden
