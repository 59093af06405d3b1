// Lists of words in one text, as command lines and data files have them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace fp4 {

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

}  // namespace fp4
