// A whole product through its epilogue (fp4/epilogue.h), and the word for the type of D.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fp4/epilogue.h"

namespace fp4 {

// Error, which `place` opens, with the accepted words.
OutputType output_type_of(const std::string& place, std::string_view word);

// The bytes of D [rows, cols], row-major. c [rows, cols] where beta is not 0 and bias [cols] where there is one, else
// null.
std::vector<uint8_t> finished(const Epilogue& e, const std::vector<float>& product, int64_t cols, const float* c,
                              const float* bias);

}  // namespace fp4
