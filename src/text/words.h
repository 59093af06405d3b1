// Lists of words in one text, and integers, as command lines and data files have them.
#pragma once

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fp4 {

template <class List, class Value>
bool contains(const List& list, const Value& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

// What stands between the separators, empty parts too: always one part more than there are separators.
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// "a, b, c"; of other things than texts, of what `text` makes of each.
template <class Words, class Text>
std::string joined(const Words& words, std::string_view separator, const Text& text) {
  std::string out;
  bool is_first = true;
  for (const auto& word : words) {
    if (!is_first) out += separator;
    is_first = false;
    out += text(word);
  }
  return out;
}
template <class Words>
std::string joined(const Words& words, std::string_view separator = ", ") {
  return joined(
      words, separator, [](const auto& word) -> const auto& { return word; });
}

// One word more: "" becomes "a", and that "a, b". For lists whose words are found one by one.
inline void add_word(std::string& list, std::string_view word, std::string_view separator = ", ") {
  if (!list.empty()) list += separator;
  list += word;
}

// Integers as people write them: decimal digits, no leading zero, no plus, in the range of their type. So that 010 is
// never 8, -1 never 2^64 - 1 and 2^64 never the largest that fits.
template <class Integer>
std::optional<Integer> integer_from_text(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Only one text stands for a number: "07", "-0", "+7" and " 7" differ from it.
  if (error != std::errc() || end != text.data() + text.size() || std::to_string(value) != text) return std::nullopt;
  return value;
}

// A real number that fills the text, as std::from_chars reads it: "1e-3" and "inf", but neither "" nor "+1" nor "1 x"
// nor "1e999".
template <class Real = double>
std::optional<Real> real_from_text(std::string_view text) {
  Real value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace fp4
