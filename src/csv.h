// Lines of CSV files (RFC 4180), without line breaks inside a field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fp4 {

// `a,"b,""c"""` -> a | b,"c": the fields of a line, quotes taken off.
std::vector<std::string> csv_fields(std::string_view line);

}  // namespace fp4
