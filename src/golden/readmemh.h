// Cases as text for hardware simulators: words in hexadecimal, a row or an output a line, that $readmemh reads. A line
// of codes is one packed word: element k at bits k*n and up, n its bits, so that the first is the last digit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/golden/suite.h"

namespace fp4::golden {

struct TextFile {
  std::string name, text;
};

// Of a product whose arrays are at hand: a.hex, b.hex, a_scales.hex, b_scales.hex, output_ADDER.hex and case.svh with
// widths and counts. Error for a case that no dot unit has.
std::vector<TextFile> readmemh_files(const Case& c, const std::vector<Array>& arrays, const std::string& backend,
                                     int threads);

// Bytes of such a file, little end first; comments and white space do not count. Error, which `place` opens.
std::vector<unsigned char> bytes_of_hex(const std::string& place, std::string_view text);

}  // namespace fp4::golden
