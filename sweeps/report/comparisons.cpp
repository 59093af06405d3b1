// Reads effects.csv (report.h).
#include <algorithm>
#include <array>
#include <charconv>

#include "src/text/csv.h"
#include "src/text/error.h"
#include "src/text/words.h"
#include "sweeps/report/report.h"

namespace fp4 {

std::vector<ReportComparison> read_comparisons(std::string_view text, const std::string& place) {
  static constexpr std::array<const char*, 7> names = {"group", "name", "task", "mean", "low", "high", "delta"};
  std::vector<ReportComparison> rows;
  std::array<std::size_t, names.size()> at{};
  std::vector<std::string> head;
  std::size_t number = 0;
  for (std::string line : split(std::string(text), '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const std::vector<std::string> fields = csv_fields(line);
    if (head.empty()) {
      head = fields;
      for (std::size_t k = 0; k < names.size(); ++k) {
        const auto found = std::find(head.begin(), head.end(), names[k]);
        if (found == head.end())
          throw Error(place + ": no column '" + names[k] + "' (it is one of a study's effects.csv)");
        at[k] = static_cast<std::size_t>(found - head.begin());
      }
      continue;
    }
    const std::string here = place + ", line " + std::to_string(number);
    if (fields.size() != head.size())
      throw Error(here + ": " + std::to_string(fields.size()) + " fields, expected " + std::to_string(head.size()));
    const auto value = [&](std::size_t k) {
      const std::string& word = fields[at[k]];
      double parsed = report_unknown;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), parsed);
      if (!word.empty() && (error != std::errc() || end != word.data() + word.size()))
        throw Error(here + ": " + names[k] + ": expected a number, not '" + word + "'");
      return parsed;
    };
    rows.push_back({fields[at[0]], fields[at[1]], fields[at[2]], {value(3), value(4), value(5)}, value(6)});
  }
  if (head.empty()) throw Error(place + ": empty, expected a study's effects.csv");
  return rows;
}

}  // namespace fp4
