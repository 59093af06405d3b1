#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "src/golden/bundle.h"
#include "src/golden/variants.h"
#include "src/text/error.h"

namespace fp4::golden {
namespace {

// `bytes` in words of `width` bytes, the last byte first.
std::string hex_lines(const std::vector<unsigned char>& bytes, size_t width) {
  std::string out;
  for (size_t first = 0; first + width <= bytes.size(); first += width) {
    for (size_t i = width; i-- > 0;) out += fmt::format("{:02x}", bytes[first + i]);
    out += '\n';
  }
  return out;
}

}  // namespace

std::vector<TextFile> readmemh_files(const Case& c, const std::vector<Array>& arrays, const std::string& backend,
                                     int threads) {
  const QuantSpec spec = quant_spec_from_words(c.words);
  const std::string place = "golden make --as readmemh: case " + c.name + ": ";
  const auto refuse = [&](bool is_other, const char* why) {
    if (is_other) throw Error(place + why);
  };
  refuse(!c.is_gemm, "is no product; a dot unit has --shape MxNxK");
  refuse(spec.has_tensor_scale(), "a dot unit adds before tensor scales; say ,tensor_scale=none");
  refuse(!spec.has_scale() || is_real(spec.scale), "its operands have no scale bytes");
  refuse(c.hadamard.size > 0 || c.sparsity != Sparsity::none || spec.block.kind != BlockKind::vector ||
             c.cols % spec.block.size != 0 || spec.prescale != 1.0f,
         "its blocks do not fill rows of K, or it has a Hadamard, a sparse operand or a prescale");
  std::vector<TextFile> out;
  CaseInputs in;
  for (const Array& a : arrays) {
    if (a.name == "a") in.a = floats_of(a);
    if (a.name == "b") in.b = floats_of(a);
  }
  const Simulator simulator(c, in, backend, threads);
  for (const bool is_b : {false, true}) {
    const Quantized q = simulator.operand(simulator.base(), is_b);
    out.push_back({is_b ? "b.hex" : "a.hex", hex_lines(q.codes, static_cast<size_t>(q.code_row_bytes()))});
    out.push_back(
        {is_b ? "b_scales.hex" : "a_scales.hex", hex_lines(q.scales, static_cast<size_t>(q.geometry.scale_cols))});
  }
  for (const Array& a : arrays)
    if (a.name.starts_with("output_")) out.push_back({a.name + ".hex", hex_lines(a.bytes, 4)});
  const int bits = code_bits(c);
  out.push_back(
      {"case.svh",
       fmt::format(
           "// {}: D[i][j] = sum over K of A[i][k]*B[j][k]; a line of a.hex is a row, element k at\n"
           "// bits k*CODE_BITS and up, scale of block k at bits k*8 and up; output_ADDER.hex has D row by row.\n"
           "localparam int ROWS = {}, ROWS_B = {}, K = {}, CODE_BITS = {}, BLOCK = {};\n"
           "localparam CASE = \"{}\", SPEC = \"{}\", ELEMENT = \"{}\", SCALE = \"{}\";\n",
           c.name, c.rows, c.rows_b, c.cols, bits, spec.block.size, c.name, c.words,
           row_of(element_table, spec.element).name, row_of(scale_table, spec.scale).name)});
  return out;
}

std::vector<unsigned char> bytes_of_hex(const std::string& place, std::string_view text) {
  std::vector<unsigned char> out;
  size_t number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string digits;
    for (const char ch : text.substr(at, std::min(text.find("//", at), end) - at))
      if (std::isspace(static_cast<unsigned char>(ch)) == 0 && ch != '_') digits += ch;
    if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos || digits.size() % 2 != 0)
      throw Error(fmt::format("{}: line {}: '{}' is no word of whole bytes in hexadecimal", place, number,
                              digits.substr(0, 40)));
    for (size_t i = digits.size(); i >= 2; i -= 2)
      out.push_back(static_cast<unsigned char>(std::stoul(digits.substr(i - 2, 2), nullptr, 16)));
    at = end + 1;
  }
  return out;
}

}  // namespace fp4::golden
