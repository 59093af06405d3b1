// Do fields come back as they went, and does no text of others become a spreadsheet's formula?
#include <catch2/catch.hpp>

#include "src/text/csv.h"

using namespace fp4;

TEST_CASE("fields come back as they were written", "[quick]") {
  const std::vector<std::string> texts = {"",        "a",    "b,\"c\"", "=1+1",     "'=1+1",  "''@x",
                                          "'plain'", "-0.5", "+3.1 %",  "-inf",     "1e-300", "-cmd|x!A",
                                          "+f(1)",   "@sum", "@",       "=",        "-",      "'",
                                          "'-",      "\tx",  "=\"a\"",  "-1 (low)", "a=b"};
  std::string line;
  for (const std::string& text : texts) line += (line.empty() && &text == &texts[0] ? "" : ",") + csv_field(text);
  CHECK(csv_fields(line) == texts);
}

TEST_CASE("what a spreadsheet would compute is marked as text, and no number is", "[quick]") {
  for (const char* text :
       {"=1+1", "=cmd|' /C calc'!A0", "@SUM(A1)", "+HYPERLINK(1)", "-2+3+cmd|' /C calc'!D2", "\t=1"}) {
    INFO(text);
    const std::string field = csv_field(text);
    CHECK(field[field[0] == '"' ? 1 : 0] == '\'');
  }
  for (const char* text : {"-0.5", "+3.1 %", "-inf", "-1e-30", "-", "+", "-12.3 %", "a=b", "x@y", "mxfp4-sr"})
    CHECK(csv_field(text) == text);
}
