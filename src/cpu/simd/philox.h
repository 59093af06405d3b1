// Philox4x32-10 (rng.h) in vectors of 64-bit lanes (vq), which `low_products` multiplies; included by avx512_bytes.h
// and parts_bytes.h after these.
#pragma once

namespace fp4::FP4_ISA {

struct Words {
  I word[4];
};

// The words of counters (low, high, stream, step), whose words lie in the halves of `low` and `high`: products need
// even and odd ones apart.
FP4_SIMD void philox_words(vq low, vq high, uint32_t stream, uint32_t step, uint64_t seed, vq (&word)[4]) {
  vq c[2][4] = {{low, high, vq{} + stream, vq{} + step}, {low >> 32, high >> 32, vq{} + stream, vq{} + step}};
  auto key0 = static_cast<uint32_t>(seed);
  auto key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (auto& half : c) {
      const vq p0 = low_products(half[0], vq{} + 0xD2511F53u);
      const vq p1 = low_products(half[2], vq{} + 0xCD9E8D57u);
      half[0] = (p1 >> 32) ^ half[1] ^ key0;
      half[2] = (p0 >> 32) ^ half[3] ^ key1;
      half[1] = p1;
      half[3] = p0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int i = 0; i < 4; ++i) word[i] = (c[0][i] & 0xFFFFFFFFu) | c[1][i] << 32;
}

}  // namespace fp4::FP4_ISA
