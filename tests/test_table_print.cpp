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
