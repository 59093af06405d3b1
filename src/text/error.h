// The one exception of the libraries. Its message names the place, the offending word and the accepted words, because
// the reader is a person at a terminal who has to mend an input. Code that has to decide by an error reads its fields
// (tools/scripts/check_includes.py refuses a look into the message); tools/main.cpp turns it into an exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fp4 {

struct Error : std::runtime_error {
  // The exit code of the program. bad_input: wrong usage or a wrong file, and nothing was written. failed: the work
  // itself (a full disk, a lost file, no memory).
  enum Kind : int { failed = 1, bad_input = 2 };
  explicit Error(std::string message, Kind why = bad_input)
      : std::runtime_error(message), kind(why), text(std::move(message)) {}
  /// "PLACE: TEXT".
  Error(std::string at, std::string wrong, Kind why = bad_input)
      : std::runtime_error(at + ": " + wrong), kind(why), place(std::move(at)), text(std::move(wrong)) {}
  /// `inner` with a place in front of its own.
  Error(const std::string& at, const Error& inner)
      : std::runtime_error(at + ": " + inner.what()),
        kind(inner.kind),
        place(inner.place.empty() ? at : at + ": " + inner.place),
        text(inner.text),
        word(inner.word) {}
  Kind kind;
  std::string place;  // a file, or a path inside it; empty where the message alone says it
  std::string text;   // what is wrong there
  std::string word;   // the one that is not known
};

// The accepted word with the fewest edits (insert, delete, replace, swap of neighbours, case ignored) from `word`, or
// "" when none is near: more than a third of its letters would change, so a suggestion would only mislead.
std::string nearest_word(std::string_view word, const std::vector<std::string>& accepted);

// "PLACE: unknown word 'WORD'; did you mean 'X'? Accepted: a, b, c" - to be thrown by the caller.
Error unknown_word(std::string_view place, std::string_view word, const std::vector<std::string>& accepted);

}  // namespace fp4
