#include "src/layout/digit_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"

namespace fp4::golden {
namespace {

int64_t rounded_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

int64_t bytes_of(const Placing& placing, int bits, int64_t rows, int64_t cols) {
  return rounded_up(rows, placing.row_multiple) * rounded_up(cols, placing.col_multiple) * bits / 8;
}

std::vector<uint8_t> placed(const Placing& placing, int bits, const std::vector<uint8_t>& words, int64_t rows,
                            int64_t cols) {
  const Placement place(placing, rows, cols);
  const int mask = (1 << bits) - 1;
  std::vector<uint8_t> out(static_cast<size_t>(place.size() * bits / 8), 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t bit = place.at(r, c) * bits;
      const int word = (words[static_cast<size_t>(r * cols + c)] & mask) << bit % 8;
      const auto byte = static_cast<size_t>(bit / 8);
      out[byte] = static_cast<uint8_t>(out[byte] | word);
      if (word > 255) out[byte + 1] = static_cast<uint8_t>(out[byte + 1] | word >> 8);
    }
  return out;
}

template <class Info>
std::vector<uint8_t> read(const Info& info, int bits, const std::vector<uint8_t>& stored, int64_t rows, int64_t cols,
                          const std::string& place) {
  const Placement at(info.placing, rows, cols);
  if (const int64_t wants = at.size() * bits / 8; std::ssize(stored) != wants)
    throw Error(
        fmt::format("{}: {} bytes; {} x {} in layout {} has {}", place, stored.size(), rows, cols, info.name, wants));
  const int mask = (1 << bits) - 1;
  std::vector<uint8_t> out(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t bit = at.at(r, c) * bits;
      const auto byte = static_cast<size_t>(bit / 8);
      const bool crosses = bit % 8 + bits > 8;
      const int word = stored[byte] | (crosses ? stored[byte + 1] << 8 : 0);
      out[static_cast<size_t>(r * cols + c)] = static_cast<uint8_t>(word >> bit % 8 & mask);
    }
  return out;
}

}  // namespace

std::string address_text(const Placing& placing) {
  const std::string digits = placing.digits;
  if (placing.row_multiple == 1 && placing.col_multiple == 1) return digits;
  return digits + fmt::format("; padded to {} x {}", placing.row_multiple, placing.col_multiple);
}

Placement::Placement(const Placing& placing, int64_t rows, int64_t cols)
    : row_part_(static_cast<size_t>(rows)), col_part_(static_cast<size_t>(cols)) {
  const int64_t padded_rows = rounded_up(rows, placing.row_multiple);
  const int64_t padded_cols = rounded_up(cols, placing.col_multiple);
  size_ = padded_rows * padded_cols;
  int64_t weight = 1;
  const std::vector<std::string> digits = split(placing.digits, ',');
  for (auto text = digits.rbegin(); text != digits.rend(); ++text) {
    const auto number_behind = [&](char sign) {
      const size_t at = text->find(sign);
      return at == std::string::npos ? 0 : std::atoll(text->c_str() + at + 1);
    };
    const bool is_row = text->find('r') != std::string::npos, is_flipped = text->find('-') != std::string::npos;
    const int64_t step = std::max<int64_t>(number_behind('/'), 1), modulo = number_behind('%');
    const int64_t extent = modulo > 0 ? modulo : (is_row ? padded_rows : padded_cols) / step;
    std::vector<int64_t>& part = is_row ? row_part_ : col_part_;
    for (size_t index = 0; index < part.size(); ++index) {
      const int64_t digit = static_cast<int64_t>(index) / step % extent;
      part[index] += weight * (is_flipped ? extent - 1 - digit : digit);
    }
    weight *= extent;
  }
}

int64_t padded_size(ScaleLayout layout, int64_t rows, int64_t cols) {
  return bytes_of(row_of(scale_layout_table, layout).placing, 8, rows, cols);
}
std::vector<uint8_t> to_layout(ScaleLayout layout, const std::vector<uint8_t>& scales, int64_t rows, int64_t cols) {
  return placed(row_of(scale_layout_table, layout).placing, 8, scales, rows, cols);
}
std::vector<uint8_t> from_layout(ScaleLayout layout, const std::vector<uint8_t>& stored, int64_t rows, int64_t cols,
                                 const std::string& place) {
  return read(row_of(scale_layout_table, layout), 8, stored, rows, cols, place);
}

int64_t padded_bytes(CodeLayout layout, int64_t rows, int64_t cols) {
  const CodeLayoutInfo& info = row_of(code_layout_table, layout);
  return bytes_of(info.placing, info.bits, rows, cols);
}
std::vector<uint8_t> to_layout(CodeLayout layout, const std::vector<uint8_t>& codes, int64_t rows, int64_t cols) {
  const CodeLayoutInfo& info = row_of(code_layout_table, layout);
  return placed(info.placing, info.bits, codes, rows, cols);
}
std::vector<uint8_t> from_layout(CodeLayout layout, const std::vector<uint8_t>& stored, int64_t rows, int64_t cols,
                                 const std::string& place) {
  const CodeLayoutInfo& info = row_of(code_layout_table, layout);
  return read(info, info.bits, stored, rows, cols, place);
}

ScaleLayout scale_layout_of(const std::string& place, const std::string& word) {
  return named_row(place, word, scale_layout_table).id;
}
CodeLayout code_layout_of(const std::string& place, const std::string& word) {
  return named_row(place, word, code_layout_table).id;
}

}  // namespace fp4::golden
