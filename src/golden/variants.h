// The named ways in which a kernel can differ from a case: each is a cause in axis words and a function that computes
// what such a kernel would dump. diagnose.cpp tries them; tests corrupt dumps by them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/golden/bundle.h"

namespace fp4::golden {

// What a case is computed from, as stored in the bundle.
struct CaseInputs {
  std::vector<float> a;  // or the input of a quantisation
  std::vector<float> b;
};
CaseInputs load_inputs(const Bundle& bundle, const Case& c);

// Elements (elements_of) of the named golden array as a kernel with this difference would give them; empty when the
// variant says nothing about that array.
using Elements = std::vector<uint32_t>;

struct Variant {
  std::string cause;
  std::string detail;
  std::function<Elements(const std::string& array)> compute;
};

// Changes of one axis of the spec, of special arithmetic (float log2, missing saturation, tensor-scale use) and of
// layout.
std::vector<Variant> single_variants(const Case& c, const CaseInputs& in, const std::string& backend, int threads);
// Pairs: layouts and nibble orders with everything, scale rules with roundings, orders of operations and policies.
std::vector<Variant> pair_variants(const Case& c, const CaseInputs& in, const std::string& backend, int threads);

}  // namespace fp4::golden
