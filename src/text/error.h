// The one exception of the libraries. Its message names the place, the offending word and the accepted words, because
// the reader is a person at a terminal who has to mend an input; tools/main.cpp alone catches it and turns it into an
// exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fp4 {

// exit_code 2: wrong usage or bad input, nothing was written. exit_code 1: the work itself failed (a full disk, a lost
// file).
struct Error : std::runtime_error {
  explicit Error(std::string message, int code = 2) : std::runtime_error(std::move(message)), exit_code(code) {}
  int exit_code;
};

// The accepted word with the fewest edits (insert, delete, replace, swap of neighbours, case ignored) from `word`, or
// "" when none is near: more than a third of its letters would change, so a suggestion would only mislead.
std::string nearest_word(std::string_view word, const std::vector<std::string>& accepted);

// "PLACE: unknown word 'WORD'; did you mean 'X'? Accepted: a, b, c" - to be thrown by the caller.
Error unknown_word(std::string_view place, std::string_view word, const std::vector<std::string>& accepted);

}  // namespace fp4
