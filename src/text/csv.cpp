#include "src/text/csv.h"

namespace fp4 {

namespace {

constexpr std::string_view formula_starts = "=+-@\t\r";

// Behind + and - a formula that does something calls a function, reads another sheet or starts a program.
bool is_formula(std::string_view text) {
  if (text.size() < 2 || formula_starts.find(text[0]) == std::string_view::npos) return false;
  return (text[0] != '+' && text[0] != '-') || text.find_first_of("(|!") != std::string_view::npos;
}

// '=, ''=, ..: what an apostrophe was put before, or could seem to have been.
bool is_marked(std::string_view text) {
  const size_t first = text.find_first_not_of('\'');
  return first != 0 && first != std::string_view::npos && formula_starts.find(text[first]) != std::string_view::npos;
}

}  // namespace

std::string csv_field(std::string_view text) {
  const bool marks = is_formula(text) || is_marked(text);
  if (!marks && text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string field = marks ? "'" : "";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field.find_first_of(",\"\n\r") == std::string::npos ? field : '"' + field + '"';
}

std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  for (std::string& field : fields)
    if (is_marked(field)) field.erase(0, 1);
  return fields;
}

}  // namespace fp4
