// The named ways in which a kernel can differ from a case: each is a list of changes and what such a kernel computes.
// diagnose.cpp tries them, alone and several at once.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/golden/bundle.h"
#include "src/golden/faulty_kernel.h"

namespace fp4::golden {

// In what a kernel differs from a case: an axis and the word that the kernel has there. Axes are those of a spec
// ("scale_rule"), and names of what no spec can say ("tensor_scale_decode").
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

struct NamedKernel {
  Changes changes;
  std::string detail;
  Kernel kernel;
};

// A --spec that says `changed`: the words of `base` and those in which it differs.
std::string replay_words(const std::string& base_words, const QuantSpec& base, const QuantSpec& changed);

// What `base` becomes by one change: of an order of codes or scales that `base` leaves to the array's name, of a word
// of the spec, of what no word of it says ( missing saturation, use of the tensor scale, draws), of the
// adder.
std::vector<NamedKernel> changes(const Case& c, const Kernel& base);
std::vector<NamedKernel> orders(const Case& c, const Kernel& base);  // the orders alone
std::vector<NamedKernel> zero_signs(const Kernel& base);             // the words of negative_zero alone

// What is no policy: operands that are read wrongly from memory, parts of K or tensor scales that are left out.
std::vector<NamedKernel> accidents(const Case& c, const Kernel& base, const std::vector<Misread>& of_a,
                                   const std::vector<Misread>& of_b);

// The kernels of other presets with the same formats and blocks.
std::vector<NamedKernel> presets_like(const Kernel& base);
// A preset that `explains` accepts, as the words in which it has to differ from `base` for that, as few as can be.
NamedKernel in_words(const NamedKernel& preset, const Kernel& base, const std::function<bool(const Kernel&)>& explains);

}  // namespace fp4::golden
