// Codes of elements that are lists of values, of choices between two grids and of micro-exponents, by where
// x/(s*g/p*2^e) lies between two values, in fp32. What lies too near the point that decides to tell goes to the core.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fp4/block.h"
#include "fp4/micro.h"
#include "fp4/spec.h"
#include "src/listed/listed_lanes.h"

namespace fp4 {

/// The values of an element on one side of zero, ascending, with what is written for them.
struct ListedSide {
  int count = 0;
  double value[ElementGrid::most_values] = {}, middle[ElementGrid::most_values] = {};  // middle[i] of i and i + 1
  uint32_t code[ElementGrid::most_values] = {};
};

struct ListedElement {
  FloatFormat format;
  ListedSide side[2];  // of positive and negative numbers
  ListedSteps steps;
  std::vector<float> decoded;  // by code; canonical NaN where a code is none

  explicit ListedElement(const FloatFormat& f);
};

/// A spec's elements as lists: `element`, or its base under micro-exponents, and the second of a choice.
struct ListedSpec {
  Quantizer q;
  ListedElement first;
  std::optional<ListedElement> second;

  explicit ListedSpec(const QuantSpec& s);
};

/// Values by code; canonical NaN where a code is none.
std::vector<float> decoded_values(const FloatFormat& f);

/// Whether a rounding goes to the nearest value; they differ in ties alone.
bool is_listed_nearest(Rounding r);

/// g/p, to 2^-53.
double listed_units(const Quantizer& q, TensorFactor t);

/// s*g/p of a scale code, to 2^-52: what a payload is x divided by.
double listed_divisor(const Quantizer& q, uint32_t scale_code, TensorFactor t);

/// Codes of one block x[0..n) under one element and scale; e: exponents of micro-exponents, or null; draws: the random
/// bits of each element, or null where the rounding reads none.
void listed_codes(const Quantizer& q, const ListedElement& element, uint32_t scale_code, TensorFactor t, const float* x,
                  int64_t n, const int* e, const uint32_t* draws, uint32_t* out);

/// The scale code of a block with a choice of grids (chosen_code of the core), by the codes of both; -1 where the core
/// must say it. x[0..n): the block's elements, all finite, `amax` their largest magnitude.
int64_t listed_choice(const ListedSpec& spec, const float* x, int64_t n, float amax, TensorFactor t, uint32_t draw);

/// micro_exponents of the core.
void listed_exponents(const Quantizer& q, const BlockView& x, uint32_t scale_code, TensorFactor t,
                      int (&out)[most_micro_width]);

}  // namespace fp4
