// The words of avx512.h for any machine: sixteen lanes are four vectors of 16 bytes, truth values are lanes of ones.
// There is no embedded rounding here, as in avx2.h.
#pragma once

#include "src/cpu/simd/generic_bytes.h"
