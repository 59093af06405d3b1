#include "src/model/gguf_blocks.h"

#include <cstring>

namespace fp4 {

namespace {

// Nibble i of a word as byte i, and back.
uint64_t spread(uint32_t nibbles) {
  uint64_t x = nibbles;
  x = (x | x << 16) & 0x0000ffff0000ffff;
  x = (x | x << 8) & 0x00ff00ff00ff00ff;
  return (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
}
uint32_t gathered(uint64_t x) {
  x = (x | x >> 4) & 0x00ff00ff00ff00ff;
  x = (x | x >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(x | x >> 16);
}

}  // namespace

void join_halves(const uint8_t* halves, int bytes, uint8_t* low_first) {
  for (int j = 0; j < bytes / 2; j += 4) {
    uint64_t both;
    std::memcpy(&both, halves + 2 * j, 8);
    const uint32_t first = gathered(both & 0x0f0f0f0f0f0f0f0f), second = gathered(both >> 4 & 0x0f0f0f0f0f0f0f0f);
    std::memcpy(low_first + j, &first, 4);
    std::memcpy(low_first + bytes / 2 + j, &second, 4);
  }
}

void split_halves(const uint8_t* low_first, int bytes, uint8_t* halves) {
  for (int j = 0; j < bytes / 2; j += 4) {
    uint32_t first, second;
    std::memcpy(&first, low_first + j, 4);
    std::memcpy(&second, low_first + bytes / 2 + j, 4);
    const uint64_t both = spread(first) | spread(second) << 4;
    std::memcpy(halves + 2 * j, &both, 8);
  }
}

std::vector<uint8_t> blocks_of(GgufValues values, const Quantized& q) {
  const GgufBlock block = gguf_block(values);
  const int half = block.codes / 2;
  std::vector<uint8_t> out(q.codes.size() + q.scales.size());
  uint8_t* to = out.data();
  const uint8_t *codes = q.codes.data(), *scales = q.scales.data();
  for (const uint8_t* end = scales + q.scales.size(); scales < end; scales += block.scales) {
    std::memcpy(to, scales, static_cast<size_t>(block.scales));
    to += block.scales;
    for (int part = 0; part < block.scales; ++part, codes += half, to += half) split_halves(codes, half, to);
  }
  return out;
}

}  // namespace fp4
