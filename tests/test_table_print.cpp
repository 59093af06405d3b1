// Terminal tables: aligned, within the width, wrapped at spaces; checked on the text itself.
#include <catch2/catch.hpp>
#include <sstream>

#include "tools/cli/table_print.h"

using fp4::tools::Align;
using fp4::tools::format_table;
using fp4::tools::Table;
using fp4::tools::wrap_text;

TEST_CASE("text wraps at spaces and inside words that are too long", "[quick]") {
  CHECK(wrap_text("", 10) == std::vector<std::string>{""});
  CHECK(wrap_text("one two three", 8) == std::vector<std::string>{"one two", "three"});
  CHECK(wrap_text("abcdefghij", 4) == std::vector<std::string>{"abcd", "efgh", "ij"});
  CHECK(wrap_text("a\nb", 10) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("a table is aligned and plain without a terminal", "[quick]") {
  const Table table = {{{"name"}, {"value", Align::right}}, {{"a", "1"}, {"long", "12345678"}, {"b"}}};
  CHECK(format_table(table, 100, false) ==
        "name     value\n"
        "----  --------\n"
        "a            1\n"
        "long  12345678\n"
        "b\n");
}

TEST_CASE("where a table has no other way, names break behind their signs, never numbers", "[quick]") {
  const Table table = {{{"spec"}, {"value", Align::right}}, {{"nvfp4,scale_rule=rceil", "12345678"}}};
  CHECK(format_table(table, 24, false) ==
        "spec               value\n"  // 24 = 15 + 1 + 8
        "--------------- --------\n"
        "nvfp4,          12345678\n"
        "scale_rule=\n"
        "rceil\n");
  const Table fits = {{{"spec"}, {"value", Align::right}}, {{"nvfp4,scale_rule=rceil", "1"}}};
  CHECK(format_table(fits, 40, false).find("nvfp4,scale_rule=rceil") != std::string::npos);
  CHECK(wrap_text("see nvfp4,scale_rule=rceil", 14) ==
        std::vector<std::string>{"see", "nvfp4,", "scale_rule=", "rceil"});
}

TEST_CASE("a Markdown table keeps its cells whole", "[quick]") {
  CHECK(fp4::tools::markdown_table({{"a|b", ">n"}, {{"x|y", "1"}, {"z"}}}) ==
        "| a\\|b | n |\n|---|---:|\n| x\\|y | 1 |\n| z |  |\n");
}

TEST_CASE("what could move a cursor or change a title is shown as numbers", "[quick]") {
  const std::pair<const char*, const char*> cases[] = {
      {"plain", "plain"},
      {"\x1b[31m", "\\x1b[31m"},
      {"\xc2\x80", "\\x80"},  // U+0080, the first of the second set of controls
      {"\xc2\x9b"
       "31m",
       "\\x9b31m"},  // U+009B opens a sequence by itself
      {"\xc2\x9f", "\\x9f"},
      {"\xc2\xa0", "\xc2\xa0"},  // a space
      {"\x7f", "\\x7f"},
      {"\xff", "\\xff"}};
  for (const auto& [given, shown] : cases) CHECK(fp4::tools::printable(given) == shown);
}

TEST_CASE("times in words, on both sides of a minute and an hour", "[quick]") {
  const std::pair<double, const char*> cases[] = {{9.94, "9.9 s"},       {59.4, "59 s"},       {59.6, "1 min 00 s"},
                                                  {3599, "59 min 59 s"}, {3600, "1 h 00 min"}, {7265, "2 h 01 min"}};
  for (const auto& [seconds, text] : cases) CHECK(fp4::tools::duration(seconds) == text);
}

TEST_CASE("a name of many letters is cut between two of them", "[quick]") {
  std::string name(700, 'a');
  for (int i = 0; i < 300; ++i) name += "\xc3\xa9";  // e with an accent
  for (const char* end : {"", "b"}) {
    const std::string text = format_table({{"name"}, {{name + end}}}, 4000, false);
    const size_t cut = text.find("...");
    REQUIRE(cut != std::string::npos);
    CHECK(static_cast<unsigned char>(text[cut + 3]) == 0xc3);  // a whole letter follows
  }
}

TEST_CASE("a table gives way in its widest text column", "[quick]") {
  std::string words;
  for (int i = 0; i < 40; ++i) words += "word ";
  const Table table = {{{"name"}, {"doc"}, {"n", Align::right}}, {{"mxfp4", words, "7"}, {"x", "short", "123"}}};
  std::istringstream text(format_table(table, 60, false));
  std::string line;
  std::size_t longest = 0, lines = 0;
  for (; std::getline(text, line); ++lines) longest = std::max(longest, line.size());
  CHECK(longest <= 60);
  CHECK(lines >= 6);
}
