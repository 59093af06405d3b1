// What a spec leaves unused without being wrong.
#pragma once

#include <string>

#include "fp4/spec.h"

namespace fp4 {

/// A sentence that says what would use it; empty for none. A scale with a mantissa under a rule of powers of two: ue4m3
/// under floor has the error of E8M0, and a narrower range.
std::string note_of(const QuantSpec& s);

}  // namespace fp4
