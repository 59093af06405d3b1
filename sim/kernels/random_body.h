// The counter generator of fp4/rng.h in lanes.
#pragma once

#include "sim/kernels/set.h"

namespace fp4::sim::FP4_ISA {

// 32-bit words of Philox blocks first .. first + blocks - 1, rounded up to 16. Counter words as in rng.h.
static void philox(uint32_t* __restrict to, uint64_t first, int blocks, uint64_t seed, uint32_t stream, uint32_t step) {
  for (int begin = 0; begin < blocks; begin += 16) {
    uint32_t low[16], high[16], word[4][16];
    for (int l = 0; l < 16; ++l) {
      const uint64_t block = first + static_cast<uint64_t>(begin + l);
      low[l] = static_cast<uint32_t>(block), high[l] = static_cast<uint32_t>(block >> 32);
    }
    const simd::Words w = simd::philox(simd::load(low), simd::load(high), stream, step, seed);
    for (int i = 0; i < 4; ++i) simd::store(word[i], w.word[i]);
    for (int l = 0; l < 16; ++l)
      for (int i = 0; i < 4; ++i) to[int64_t{4} * (begin + l) + i] = word[i][l];
  }
}

// Uniform i = (word i >> 8) * 2^-24; 1,024 at a time through a buffer on the stack.
static void uniforms(float* x, int64_t first, int64_t n, uint64_t seed, uint32_t stream, uint32_t step) {
  uint32_t words[1024 + 64];
  for (int64_t done = 0; done < n;) {
    const int64_t at = first + done, block = at / 4;
    const int64_t skip = at - 4 * block;
    const int64_t count = n - done < 1024 - skip ? n - done : 1024 - skip;
    philox(words, static_cast<uint64_t>(block), static_cast<int>((skip + count + 3) / 4), seed, stream, step);
    for (int64_t i = 0; i < count; ++i)
      x[done + i] = static_cast<float>(static_cast<int32_t>(words[skip + i] >> 8)) * 0x1p-24f;
    done += count;
  }
}

// Normal i = sqrt(-2 ln(1 - u0)) cos(2 pi u1) of uniforms 2i, 2i + 1.
static void normals(float* x, int64_t first, int64_t n, uint64_t seed, uint32_t stream, uint32_t step) {
  float u[1024], u0[512], u1[512];
  for (int64_t done = 0; done < n; done += 512) {
    const int64_t count = n - done < 512 ? n - done : 512;
    uniforms(u, 2 * (first + done), 2 * count, seed, stream, step);
    for (int64_t i = 0; i < count; ++i) u0[i] = u[2 * i], u1[i] = u[2 * i + 1];
    for (int64_t i = 0; i < count; ++i)
      x[done + i] = __builtin_sqrtf(-2.0f * elementary::log(1.0f - u0[i])) * elementary::cos(6.28318548f * u1[i]);
  }
}

}  // namespace fp4::sim::FP4_ISA
