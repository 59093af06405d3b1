// The AVX2 backend (x86-64 only; available() says whether this machine has it).
#pragma once

#include "fp4/backend.h"

namespace fp4 {
const Backend& avx2_backend();
}
