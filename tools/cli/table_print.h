// Tables and JSON for people and scripts. A table fits 80 columns (or the terminal, when that is narrower): left
// columns wrap at spaces, then behind the signs of a name; numbers never do. Without a terminal the text carries no
// escape codes.
#pragma once

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fp4::tools {

enum class Align { left, right };

/// "recipe", or ">step" for a column of numbers, which stand on the right.
struct Column {
  std::string title;
  Align align = Align::left;
  Column(std::string name, Align side) : title(std::move(name)), align(side) {}
  Column(const std::string& name)
      : Column(name.substr(name.starts_with('>') ? 1 : 0), name.starts_with('>') ? Align::right : Align::left) {}
  Column(const char* name) : Column(std::string(name)) {}
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // a row shorter than the columns is filled with ""
};

// How tables leave the program: aligned text, a Markdown table, or CSV (RFC 4180). Other lines stay as they are.
enum class TableForm { text, markdown, csv };
void set_table_form(TableForm form);

// styled: title row in bold instead of underlined by dashes.
std::string format_table(const Table& table, std::size_t width, bool styled);
void print_table(const Table& table);
// "| a | b |" with a rule below the titles, whatever the form is that tables leave in.
std::string markdown_table(const Table& table);

// "name: value" lines with the values aligned.
void print_fields(const std::vector<std::pair<std::string, std::string>>& fields);

// JSON on one line, or with `indent`; bytes that are no UTF-8 (of a file's name) become U+FFFD.
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);
// The same with an indent of two.
void print_json(const nlohmann::ordered_json& value);

// JSON whose inner lists and objects stand on one line where they fit `width` columns; `indent` spaces and `lead`
// characters of a key stand before it.
std::string compact_json(const nlohmann::ordered_json& value, std::size_t width, std::size_t indent = 0,
                         std::size_t lead = 0);

// `text` as a terminal may see it: control characters, which can move its cursor or change its title, become \xNN.
std::string printable(std::string_view text);

// A word as a shell reads it: it's -> 'it'\''s'.
std::string shell_quoted(const std::string& word);

// 75 -> "1 min 15 s".
std::string duration(double seconds);

// Lines of at most `width` characters, broken at spaces (and inside a word that is longer than a line, behind one of
// kTearMarks where it has one).
inline constexpr const char* kTearMarks = " ,./=_|:";
std::vector<std::string> wrap_text(std::string_view text, std::size_t width);

// `text` broken at the terminal's width.
void print_wrapped(const std::string& text);
template <class... Values>
void print_sentence(fmt::format_string<Values...> format, Values&&... values) {
  print_wrapped(fmt::format(format, std::forward<Values>(values)...));
}

// Code points: wide and combining characters do not occur here.
std::size_t display_width(std::string_view text);

// "PLACE: TEXT" on stderr, wrapped at words where stderr is a terminal; one line elsewhere. Never throws.
void say_wrapped(std::string_view place, std::string_view text) noexcept;
// The same of the program: "fp4sim: TEXT".
void print_error(std::string_view text) noexcept;

bool stdout_is_terminal();
bool stdout_has_styles();      // a terminal, and NO_COLOR is not set
std::size_t terminal_width();  // of prose: at most 80, and 80 when stdout is no terminal
// Of tables: the terminal's. Without a terminal the variable COLUMNS, else no limit, so that no name is broken for
// grep.
std::size_t table_width();

}  // namespace fp4::tools
