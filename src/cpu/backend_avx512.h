// The AVX-512 backend (x86-64 only; available() says whether this machine has it).
#pragma once

#include "fp4/backend.h"

namespace fp4 {
const Backend& avx512_backend();
}
