// Sixteen lanes of AVX-512: the vocabulary in which src/cpu/*/*_body.h are written. avx2.h has the same words for pairs
// of 256-bit registers, so a kernel exists once and is compiled for both by target attributes.
#pragma once

#include "src/cpu/simd/avx512_bytes.h"
