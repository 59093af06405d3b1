// Equality of floats bit for bit: NaNs equal themselves, and zeros of either sign differ.
#pragma once

#include <cstring>
#include <vector>

namespace fp4::test {

inline bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace fp4::test
