#include "src/model/scheme.h"

#include <string>
#include <vector>

#include "src/text/error.h"

namespace fp4 {

const CheckpointScheme& scheme_of(const std::string& place, std::string_view name) {
  for (const CheckpointScheme& s : checkpoint_schemes)
    if (name == s.name) return s;
  std::vector<std::string> known;
  for (const CheckpointScheme& s : checkpoint_schemes) known.emplace_back(s.name);
  throw unknown_word(place, name, known);
}

float factor_in(Factor to, Factor from, float factor, float top) {
  if (to == from) return factor;
  const float g = from == Factor::reciprocal ? 1.0f / factor : (from == Factor::amax ? factor * (1.0f / top) : factor);
  return to == Factor::reciprocal ? 1.0f / g : (to == Factor::amax ? g * top : g);
}

}  // namespace fp4
