// The counter generator of fp4/rng.h in lanes.
// Part of kernels_body.h, which says how it is included.

// 32-bit words of Philox blocks first .. first + blocks - 1, rounded up to 16. Counter words as in rng.h; 16 blocks at
// a time, one register per word; widening_product is the instruction set's 32 x 32 -> 64.
static void philox(uint32_t* __restrict out, uint64_t first, int blocks, uint64_t seed, uint32_t stream,
                   uint32_t step) {
  for (int begin = 0; begin < blocks; begin += 16) {
    words16 c0, c1, c2, c3;
    for (int l = 0; l < 16; ++l) {
      const uint64_t block = first + static_cast<uint64_t>(begin + l);
      c0[l] = static_cast<uint32_t>(block), c1[l] = static_cast<uint32_t>(block >> 32), c2[l] = stream, c3[l] = step;
    }
    uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      words16 low0, high0, low1, high1;
      widening_product(c0, 0xD2511F53u, low0, high0);
      widening_product(c2, 0xCD9E8D57u, low1, high1);
      c0 = high1 ^ c1 ^ key0;
      c1 = low1;
      c2 = high0 ^ c3 ^ key1;
      c3 = low0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    uint32_t w0[16], w1[16], w2[16], w3[16];
    __builtin_memcpy(w0, &c0, sizeof w0), __builtin_memcpy(w1, &c1, sizeof w1);
    __builtin_memcpy(w2, &c2, sizeof w2), __builtin_memcpy(w3, &c3, sizeof w3);
    uint32_t* o = out + int64_t{4} * begin;
    for (int l = 0; l < 16; ++l) o[4 * l] = w0[l], o[4 * l + 1] = w1[l], o[4 * l + 2] = w2[l], o[4 * l + 3] = w3[l];
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
