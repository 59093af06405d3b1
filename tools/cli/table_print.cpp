// Layout of terminal tables: natural widths first, then text columns give way until the line fits.
#include "tools/cli/table_print.h"

#include <fmt/core.h>

#include <algorithm>

#include "src/text/csv.h"
#include "src/text/words.h"

namespace fp4::tools {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 8;  // a column of text below this width reads like a word list

std::string padded(const std::string& text, std::size_t width, Align align) {
  const std::size_t used = display_width(text);
  const std::string space(used < width ? width - used : 0, ' ');
  return align == Align::left ? text + space : space + text;
}

// The longest word of a column between `marks`, at most 44 of a name, which would be torn, and 34 of a text, whose
// formulas may be.
std::size_t longest_word(const Table& table, std::size_t column, const char* marks) {
  std::size_t longest = kNarrowest;
  for (const auto& row : table.rows) {
    if (column >= row.size()) continue;
    std::string_view rest = row[column];
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find_first_of(marks, 1), rest.size() - 1) + 1;
      longest = std::max(longest, display_width(rest.substr(0, end)) - (rest[end - 1] == ' ' ? 1 : 0));
      rest.remove_prefix(end);
    }
  }
  return std::min<std::size_t>(longest, column == 0 ? 44 : 34);
}

// Lines that the table would take, roughly: a row is as high as its fullest cell. Judged on the first rows.
double estimated_height(const Table& table, const std::vector<std::size_t>& widths) {
  double height = 0;
  for (std::size_t r = 0; r < std::min<std::size_t>(table.rows.size(), 200); ++r) {
    double fullest = 1;
    for (std::size_t i = 0; i < std::min(table.rows[r].size(), widths.size()); ++i)
      fullest =
          std::max(fullest, static_cast<double>(display_width(table.rows[r][i])) / static_cast<double>(widths[i]));
    height += fullest;
  }
  return height;
}

// A title in lines of at most `width`, broken behind spaces and some signs: amax_over_rms -> amax_over_, rms.
std::vector<std::string> title_lines(const std::string& title, std::size_t width) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < title.size();) {
    const std::size_t end = std::min(title.find_first_of(" _/*", at), title.size() - 1) + 1;
    const std::string piece = title.substr(at, end - at);
    if (!lines.back().empty() && display_width(lines.back() + piece) > width + (piece.back() == ' ' ? 1 : 0))
      lines.emplace_back();
    lines.back() += piece;
    at = end;
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

std::size_t longest_piece(const std::string& title) {
  std::size_t longest = 0;
  for (const std::string& line : title_lines(title, 1)) longest = std::max(longest, display_width(line));
  return longest;
}

// Both ends of a name of 32 KB: nobody reads more, and widths are found column by column.
std::string cut_in_the_middle(std::string text) {
  constexpr std::size_t longest = 1000, end = 240;
  if (text.size() <= longest) return text;
  const auto is_inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  std::size_t first = end, last = text.size() - end;
  while (is_inside(first)) --first;
  while (is_inside(last)) ++last;
  return text.replace(first, last - first, "...");
}

// `tear`: names may be broken behind their signs, nvfp4,scale_rule=rceil behind the comma.
std::vector<std::size_t> column_widths(const Table& table, std::size_t width, std::size_t gap, bool tear = false) {
  std::vector<std::size_t> widths;
  for (const Column& column : table.columns) widths.push_back(display_width(column.title));
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < std::min(row.size(), widths.size()); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  std::vector<std::size_t> least = widths;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    std::size_t cells = 0;  // of numbers, which are never cut
    for (const auto& row : table.rows) cells = std::max(cells, i < row.size() ? display_width(row[i]) : 0);
    if (table.columns[i].align == Align::left) cells = longest_word(table, i, tear ? kTearMarks : " ");
    least[i] = std::min(widths[i], std::max(cells, longest_piece(table.columns[i].title)));
  }
  const std::size_t gaps = widths.empty() ? 0 : gap * (widths.size() - 1);
  for (std::size_t total = std::accumulate(widths.begin(), widths.end(), gaps); total > width; --total) {
    // The column gives way whose loss makes the table grow least.
    std::size_t best = widths.size();
    double best_height = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] <= least[i]) continue;
      --widths[i];
      const double height = estimated_height(table, widths);
      ++widths[i];
      if (best == widths.size() || height < best_height) {
        best = i;
        best_height = height;
      }
    }
    if (best == widths.size()) break;  // a long line is better than a cut number or a torn name
    --widths[best];
  }
  return widths;
}

void append_row(std::string& out, const Table& table, const std::vector<std::string>& cells,
                const std::vector<std::size_t>& widths, std::size_t gap, bool is_head = false) {
  std::vector<std::vector<std::string>> lines(widths.size());
  std::size_t height = 1;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const std::string cell = i < cells.size() ? cells[i] : std::string();
    lines[i] = is_head                                 ? title_lines(cell, widths[i])
               : table.columns[i].align == Align::left ? wrap_text(cell, widths[i])
                                                       : std::vector<std::string>{cell};
    height = std::max(height, lines[i].size());
  }
  for (std::size_t h = 0; h < height; ++h) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i != 0) line.append(gap, ' ');
      line += padded(h < lines[i].size() ? lines[i][h] : std::string(), widths[i], table.columns[i].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
}

TableForm table_form = TableForm::text;

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string unaligned_table(const Table& table, bool is_csv) {
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out = is_csv ? "" : "|";
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const std::string cell = i < cells.size() ? printable(cells[i]) : std::string();
      out += is_csv ? (i > 0 ? "," : "") + csv_field(cell) : " " + markdown_cell(cell) + " |";
    }
    return out + "\n";
  };
  std::vector<std::string> titles;
  std::string rule = "|";
  for (const Column& column : table.columns) {
    titles.push_back(column.title);
    rule += column.align == Align::left ? "---|" : "---:|";
  }
  std::string out = line(titles) + (is_csv ? "" : rule + "\n");
  for (const auto& row : table.rows) out += line(row);
  return out;
}

}  // namespace

void set_table_form(TableForm form) { table_form = form; }

std::string markdown_table(const Table& table) { return unaligned_table(table, false); }

std::string format_table(const Table& given, std::size_t width, bool styled) {
  if (table_form != TableForm::text) return unaligned_table(given, table_form == TableForm::csv);
  Table table = given;
  for (Column& column : table.columns) column.title = printable(column.title);
  for (auto& row : table.rows)
    for (std::string& cell : row) cell = cut_in_the_middle(printable(cell));
  std::size_t gap = kGap;
  std::vector<std::size_t> widths = column_widths(table, width, gap);
  const auto fits = [&] {
    return std::accumulate(widths.begin(), widths.end(), gap * (std::max<std::size_t>(widths.size(), 1) - 1)) <= width;
  };
  // Where numbers still do not fit, one space between them may do, then breaking names.
  if (!fits()) widths = column_widths(table, width, gap = 1);
  if (!fits()) widths = column_widths(table, width, gap, /*tear=*/true);
  std::vector<std::string> titles, rule;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    titles.push_back(table.columns[i].title);
    rule.emplace_back(widths[i], '-');
  }
  std::string head;
  append_row(head, table, titles, widths, gap, /*is_head=*/true);
  std::string out = styled ? "\033[1m" + head.substr(0, head.size() - 1) + "\033[0m\n" : head;
  if (!styled) append_row(out, table, rule, widths, gap);
  for (const auto& row : table.rows) append_row(out, table, row, widths, gap);
  return out;
}

void print_table(const Table& table) { fmt::print("{}", format_table(table, table_width(), stdout_has_styles())); }

void print_fields(const std::vector<std::pair<std::string, std::string>>& given) {
  if (table_form != TableForm::text) {
    Table table = {{{"field"}, {"value"}}, {}};
    for (const auto& [name, value] : given) table.rows.push_back({name, value});
    fmt::print("{}", unaligned_table(table, table_form == TableForm::csv));
    return;
  }
  std::size_t width = 0;
  std::vector<std::pair<std::string, std::string>> fields;
  for (const auto& [name, value] : given) fields.emplace_back(printable(name), printable(value));
  for (const auto& [name, value] : fields) width = std::max(width, display_width(name));
  for (const auto& [name, value] : fields) {
    const auto lines = wrap_text(value, terminal_width() - width - kGap);
    for (std::size_t i = 0; i < lines.size(); ++i)
      fmt::print("{}  {}\n", padded(i == 0 ? name : std::string(), width, Align::left), lines[i]);
  }
}

std::string compact_json(const nlohmann::ordered_json& value, std::size_t width, std::size_t indent, std::size_t lead) {
  using nlohmann::ordered_json;
  if (!value.is_structured() || value.empty()) return json_text(value);
  std::vector<std::string> parts;
  std::string line;
  bool is_flat = value.is_array();
  for (const auto& [key, entry] : value.items()) {
    const std::string name = value.is_object() ? ordered_json(key).dump() + ": " : "";
    parts.push_back(name + compact_json(entry, width, indent + 2, name.size()));
    add_word(line, parts.back());
    is_flat = is_flat && !entry.is_structured();
  }
  const char open = value.is_object() ? '{' : '[', close = value.is_object() ? '}' : ']';
  const bool fits = line.find('\n') == std::string::npos && indent + lead + line.size() + 3 <= width;
  if (fits && indent > 0) return open + line + close;
  std::string out = open + ("\n" + std::string(indent + 2, ' '));
  std::size_t column = indent + 2;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool stays = i > 0 && is_flat && column + parts[i].size() + 3 <= width;  // lists of words fill lines
    if (i > 0) out += stays ? ", " : ",\n" + std::string(indent + 2, ' ');
    column = (stays ? column + 2 : indent + 2) + parts[i].size();
    out += parts[i];
  }
  return out + "\n" + std::string(indent, ' ') + close;
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void print_json(const nlohmann::ordered_json& value) { fmt::print("{}\n", json_text(value, 2)); }

}  // namespace fp4::tools
