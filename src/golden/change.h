// In what a kernel differs from a case: an axis and the word that the kernel has there. Axes are those of a spec
// ("scale_rule"), and names of what no spec can say ("tensor_scale_decode").
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace fp4::golden {

struct Change {
  std::string axis, word;  // "scale_rule", "rceil"
  friend bool operator==(const Change&, const Change&) = default;
};
using Changes = std::vector<Change>;

inline bool changes_axis(const Changes& changes, std::string_view axis) {
  return std::any_of(changes.begin(), changes.end(), [&](const Change& c) { return c.axis == axis; });
}

inline Changes operator+(Changes first, const Changes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// "scale_rule=rceil and rounding=nearest_away", as people read it.
inline std::string text_of(const Changes& changes) {
  std::string text;
  for (const Change& c : changes) text += (text.empty() ? "" : " and ") + c.axis + "=" + c.word;
  return text;
}

}  // namespace fp4::golden
