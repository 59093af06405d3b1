// How a row that describes a device is known: a column of adders, packings of random bits and converters.
#pragma once

#include <cstdint>

#include "fp4/axis.h"

namespace fp4 {

enum class Evidence : uint8_t { measured, documented, modelled, defined };

inline constexpr AxisWord<Evidence> evidence_table[] = {
    {Evidence::measured, "measured",
     "equal to the words of a device, in all that were compared; the source says which"},
    {Evidence::documented, "documented", "what the maker's text says; no word of a device was compared"},
    {Evidence::modelled, "modelled", "somebody's model of a device; its words were not compared here"},
    {Evidence::defined, "defined", "a definition of arithmetic, not of a device"},
};
static_assert(ids_are_indices(evidence_table));

}  // namespace fp4
