// Rows that have a name: their names, and the one of a name, for tables of axes and of data alike.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/error.h"

namespace fp4 {

template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

/// Throws Error with the names at `place` for a word that is none of them. `rows` lives longer than the call.
template <class Rows>
const auto& named_row(std::string_view place, std::string_view word, const Rows& rows) {
  for (const auto& row : rows)
    if (word == row.name) return row;
  throw unknown_word(place, word, names_of(rows));
}

/// The place of a word among those that are accepted, or the same Error.
inline size_t accepted_index(std::string_view place, std::string_view word, const std::vector<std::string>& accepted) {
  const auto found = std::find(accepted.begin(), accepted.end(), word);
  if (found == accepted.end()) throw unknown_word(place, word, accepted);
  return static_cast<size_t>(found - accepted.begin());
}

}  // namespace fp4
