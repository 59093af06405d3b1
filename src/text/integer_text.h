// Integers as people write them: decimal digits, no leading zero, no plus, in the range of their type. So that 010 is
// never 8, -1 never 2^64 - 1 and 2^64 never the largest that fits.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace fp4 {

template <class Integer>
std::optional<Integer> integer_from_text(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Only one text stands for a number: "07", "-0", "+7" and " 7" differ from it.
  if (error != std::errc() || end != text.data() + text.size() || std::to_string(value) != text) return std::nullopt;
  return value;
}

}  // namespace fp4
