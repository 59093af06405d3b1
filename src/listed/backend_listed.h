// The fast path of elements that are lists of values, of choices between two grids and of micro-exponents: payloads as
// fp64 quotients, which decide a code unless they lie within 2^-50 of a threshold; then the core does. Products whose
// values all are values of e2m3 go to the vector backends as that element.
#pragma once

#include "fp4/backend.h"

namespace fp4 {

const Backend& listed_backend();

}  // namespace fp4
