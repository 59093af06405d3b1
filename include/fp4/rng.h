// Random bits as a pure function of position: Philox4x32-10 (Salmon et al., SC 2011; same known answers as
// Random123). Threads, tiles, vector width and device never enter.
//   key = seed;  counter = (block low, block high, stream, step);  block = floor(i*n/128)
// The 128 output bits, word 0 lowest, are cut into n-bit draws; position i takes draw i mod (128/n).
#pragma once

#include "fp4/bits.h"

namespace fp4 {

struct PhiloxBlock {
  uint32_t word[4];
};

FP4_HD constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(p1 >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(p1),
                static_cast<uint32_t>(p0 >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(p0)}};
    key0 += 0x9E3779B9u;  // golden ratio
    key1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return counter;
}

// What a stream of random numbers is for: the low five bits of its number. `second_part` and `right_factor` round
// operands of split products, each with scale rounding and signs of its own; `sketch` draws for a low-rank part.
enum class Purpose : uint8_t {
  rounding = 0,
  scale_rounding = 1,
  hadamard_signs = 2,
  weights = 3,
  data = 4,
  noise = 5,
  second_part = 8,
  sketch = 11,
  right_factor = 12
};

// gemm: 0 fprop, 1 dgrad, 2 wgrad; 3, of layer 0, gradients on their way between ranks; operand: 0 a, 1 b.
FP4_HD constexpr uint32_t stream_number(uint32_t layer, uint32_t gemm, uint32_t operand, Purpose purpose) {
  return layer * 128 + gemm * 32 + operand * 16 + static_cast<uint32_t>(purpose);
}

// The place of a draw: seed, stream and step; `stream` is the element-rounding stream of an operand, from which
// its scale rounding (stream ^ 1) and its Hadamard signs ((stream without bit 4) ^ 2) follow.
struct RandomPlace {
  uint64_t seed = 0;
  uint32_t stream = 0;
  uint32_t step = 0;

  FP4_HD constexpr RandomPlace scale_rounding() const { return {seed, stream ^ 1u, step}; }
  FP4_HD constexpr RandomPlace hadamard_signs() const { return {seed, (stream & ~16u) ^ 2u, step}; }
  FP4_HD constexpr RandomPlace second_operand() const { return {seed, stream ^ 16u, step}; }
};

FP4_HD constexpr PhiloxBlock random_block(RandomPlace at, uint64_t block) {
  return philox4x32_10({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), at.stream, at.step}},
                       static_cast<uint32_t>(at.seed), static_cast<uint32_t>(at.seed >> 32));
}

// The n bits from `bit` on, a multiple of n.
FP4_HD constexpr uint32_t draw_of(const PhiloxBlock& block, uint32_t bit, int n) {
  const uint32_t word = block.word[bit / 32] >> (bit % 32);
  return n == 32 ? word : word & ((1u << n) - 1u);
}

// The n-bit draw of position i; n divides 32.
FP4_HD constexpr uint32_t random_draw(RandomPlace at, uint64_t i, int n) {
  const uint32_t bits = static_cast<uint32_t>(n);
  const uint64_t per_block = 128u / bits;
  const PhiloxBlock block = random_block(at, i / per_block);
  const uint32_t bit = static_cast<uint32_t>(i % per_block) * bits;
  return draw_of(block, bit, n);
}

// The same of `count` positions from `first` on, a block at a time.
inline void random_draws(RandomPlace at, uint64_t first, int n, uint32_t* out, uint64_t count) {
  PhiloxBlock block = {};
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t bit = (first + k) * static_cast<uint64_t>(n);
    if (k == 0 || bit % 128 == 0) block = random_block(at, bit / 128);
    out[k] = draw_of(block, static_cast<uint32_t>(bit % 128), n);
  }
}

// Uniform in [0,1): 24 bits.
FP4_HD constexpr float random_uniform(RandomPlace at, uint64_t i) {
  return static_cast<float>(random_draw(at, i, 32) >> 8) * 0x1p-24f;
}

}  // namespace fp4
