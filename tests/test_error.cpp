// The message of an unknown word: place, word, nearest match, accepted words.
#include <catch2/catch.hpp>

#include "src/text/embedded.h"
#include "src/text/error.h"

TEST_CASE("the nearest word is found within a third of its letters", "[quick]") {
  const std::vector<std::string> words = {"nearest_even", "toward_zero", "stochastic", "e2m1"};
  CHECK(fp4::nearest_word("nearest_evne", words) == "nearest_even");  // neighbours swapped: one edit
  CHECK(fp4::nearest_word("Stochastic", words) == "stochastic");
  CHECK(fp4::nearest_word("e2m2", words) == "e2m1");
  CHECK(fp4::nearest_word("towar", words) == "toward_zero");  // the start of a word
  CHECK(fp4::nearest_word("banana", words).empty());
  CHECK(fp4::nearest_word("", words).empty());
}

TEST_CASE("an unknown word names place, word and accepted words", "[quick]") {
  const fp4::Error error = fp4::unknown_word("--spec rounding", "stochastik", {"nearest_even", "stochastic"});
  CHECK(error.kind == fp4::Error::bad_input);
  CHECK(std::string(error.what()) ==
        "--spec rounding: unknown word 'stochastik'; did you mean 'stochastic'? Accepted: nearest_even, stochastic");
}

TEST_CASE("carried files are found by name and an unknown one is an error", "[quick]") {
  static const fp4::EmbeddedFile table[] = {{"embedded_test/b.json", "{}"}, {"embedded_test/a.json", "[1]"}};
  fp4::register_embedded(table);
  fp4::register_embedded(table);
  CHECK(fp4::embedded("embedded_test/a.json") == "[1]");
  CHECK(fp4::embedded_names("embedded_test") ==
        std::vector<std::string_view>{"embedded_test/a.json", "embedded_test/b.json"});
  CHECK(fp4::embedded_names("embedded").empty());
  CHECK_THROWS_AS(fp4::embedded("embedded_test/c.json"), fp4::Error);
}
