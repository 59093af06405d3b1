// The message of an unknown word: place, word, nearest match, accepted words.
#include <catch2/catch.hpp>

#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "src/text/member_json.h"

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

TEST_CASE("an error keeps its place, its text and its word apart, whatever place is put in front", "[quick]") {
  const auto thrown = [](const auto& work) {
    try {
      work();
    } catch (const fp4::Error& error) {
      return error;
    }
    return fp4::Error("nothing was thrown");
  };
  const fp4::Error inner = fp4::unknown_word("axes.rounding", "rond", {"round"});
  CHECK(inner.place == "axes.rounding");
  CHECK(inner.word == "rond");
  CHECK(inner.text == "unknown word 'rond'; did you mean 'round'? Accepted: round");
  const fp4::Error outer = thrown([&] { fp4::at_place("grid g.json", [&]() -> int { throw inner; }); });
  CHECK(outer.place == "grid g.json: axes.rounding");
  CHECK(outer.word == "rond");
  CHECK(outer.text == inner.text);
  CHECK(std::string(outer.what()) == "grid g.json: " + std::string(inner.what()));
  const fp4::Error placed("a.sqlite", "the disk is full", fp4::Error::failed);
  CHECK(std::string(placed.what()) == "a.sqlite: the disk is full");
  CHECK(placed.kind == fp4::Error::failed);
  const fp4::Error plain("cannot be read");
  CHECK(plain.place.empty());
  CHECK(plain.text == "cannot be read");
}

TEST_CASE("members become JSON under their own names, in their order", "[quick]") {
  struct Row {
    int b = 2;
    std::optional<double> a{}, c = 0.5;
    std::string total() const { return "all"; }
  } row;
  const Row* const at = &row;
  CHECK(FP4_NAMED(row.b, row.a, at->c, row.total()).dump() == R"({"b":2,"a":null,"c":0.5,"total":"all"})");
  CHECK(fp4::joined_json({{{"z", 1}}, FP4_NAMED(row.b), {{"a", 3}, {"y", nullptr}}}).dump() ==
        R"({"z":1,"b":2,"a":3,"y":null})");
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
