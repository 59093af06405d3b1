// Lines of CSV files (RFC 4180), without line breaks inside a field. A spreadsheet takes a cell that begins with = + -
// or @ for a formula, and names and messages come from files of others: such a text is written with an apostrophe
// before it, which spreadsheets do not show and csv_fields() takes off. A number stays as it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fp4 {

// A text as a field: b,"c -> "b,""c"; =1+1 -> '=1+1; -0.5 and +3.1 % as they are.
std::string csv_field(std::string_view text);

// `a,"b,""c"""` -> a | b,"c: the fields of a line, quotes and apostrophes of csv_field() taken off.
std::vector<std::string> csv_fields(std::string_view line);

}  // namespace fp4
