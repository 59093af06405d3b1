// The vocabulary of sixteen lanes for the instruction set FP4_CPU that a file is compiled for: 512 (AVX-512), 256
// (AVX2) or 128 (generic: the vectors of any machine). A body (*_body.h) is written in these words, includes this
// header and is compiled once for each set: by backend_avx512.cpp, backend_avx2.cpp and backend_generic.cpp, which
// define FP4_CPU before anything else. A body read alone is the generic one.
#pragma once

#ifndef FP4_CPU
#define FP4_CPU 128
#endif
#if FP4_CPU == 512
#include "src/cpu/simd/avx512_bytes.h"
#else
#include "src/cpu/simd/parts_bytes.h"
#endif

namespace fp4::FP4_ISA {

// Four vectors of small integers to bytes, as packed_lanes, of 0..255.
FP4_SIMD B packed_lanes_unsigned(I v0, I v1, I v2, I v3) {
  const I byte = all(0xFF);
  const I low = (v0 & byte) | shift_left<8>(v1 & byte);
  const I high = (v2 & byte) | shift_left<8>(v3 & byte);
  return bytes_of(low | shift_left<16>(high));
}
FP4_SIMD M is_odd(I x) { return some_bits(x, 1); }

}  // namespace fp4::FP4_ISA
