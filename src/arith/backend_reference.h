// The scalar truth as a backend.
#pragma once

#include "fp4/backend.h"

namespace fp4 {

const Backend& reference_backend();

}  // namespace fp4
