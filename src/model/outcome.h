// What became of a tensor of a model. Every command over models says one of these for each tensor.
#pragma once

#include <cstdint>

#include "fp4/axis.h"

namespace fp4 {

enum class Outcome : std::uint8_t { quantised, carried, decoded, kept, copied, folded, dropped, left };

struct OutcomeInfo {
  Outcome id;
  const char* name;
  const char* doc;
};
inline constexpr OutcomeInfo outcome_table[] = {
    {Outcome::quantised, "quantised", "its values in the scheme that is written"},
    {Outcome::carried, "carried", "codes and scales of another scheme, bit for bit, under new names"},
    {Outcome::decoded, "decoded", "FP4 or FP8 weights as real numbers"},
    {Outcome::kept, "kept", "could be converted and stays by a rule, which is named"},
    {Outcome::copied, "copied", "cannot be converted: vectors, integers, types without values here"},
    {Outcome::folded, "folded in", "multiplied a weight, whose values have it in them now"},
    {Outcome::dropped, "dropped", "described the old format and has no place in the new one"},
    {Outcome::left, "not understood", "looks like codes, scales or factors, and no scheme reads it"},
};
static_assert(ids_are_indices(outcome_table));

}  // namespace fp4
