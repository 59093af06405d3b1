// The largest finite magnitude of many numbers, and their narrowing to bfloat16: loops at the speed of memory, with the
// widest vectors of the machine.
#pragma once

#include <cstdint>

namespace fp4 {

// Of `count` numbers; 0 without a finite one.
float finite_amax(const float* x, int64_t count);

// The same of 16-bit numbers whose magnitudes are in the order of their bits: the bits of the largest one below
// `infinity` (0x7f80 bfloat16, 0x7c00 float16). `x` need not be aligned.
uint16_t finite_amax_bits(const void* x, int64_t count, uint16_t infinity);

// Nearest even; infinity stays, NaN stays one (quiet).
void narrow_to_bf16(const float* x, int64_t count, uint16_t* out);

}  // namespace fp4
