// Sixteen lanes of AVX-512: the vocabulary in which the kernels of src/fast/*_body.h are written. isa_avx2.h has the
// same words for pairs of 256-bit registers, so a kernel exists once and is compiled for both by target attributes.
#pragma once

#include "src/fast/isa_avx512_bytes.h"
