// The vector backends of this build; available() says whether this machine has the instructions.
#pragma once

#include <vector>

#include "fp4/backend.h"

namespace fp4 {

#if defined(__x86_64__)
const Backend& avx512_backend();  // AVX-512 with VNNI and VBMI: Ice Lake, Zen 4 and later
const Backend& avx2_backend();    // AVX2 with FMA and F16C: Haswell, Zen and later
#endif
const Backend& generic_backend();                      // vectors of 16 bytes, which every 64-bit machine has
const std::vector<const Backend*>& vector_backends();  // all of them, fastest first

}  // namespace fp4
