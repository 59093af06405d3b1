// The words of avx512.h for AVX2 with FMA: sixteen lanes are two 256-bit registers, truth values are lanes of ones.
// There is no embedded rounding here: rounding down goes through exact products, toward zero through a correction.
#pragma once

#include "src/cpu/simd/avx2_bytes.h"
