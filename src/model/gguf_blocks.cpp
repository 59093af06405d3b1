#include "src/model/gguf_blocks.h"

#include <cstring>

namespace fp4 {

void join_halves(const uint8_t* halves, int bytes, uint8_t* low_first) {
  for (int j = 0; j < bytes / 2; ++j) {
    const uint8_t even = halves[2 * j], odd = halves[2 * j + 1];
    low_first[j] = static_cast<uint8_t>((even & 15) | (odd & 15) << 4);
    low_first[bytes / 2 + j] = static_cast<uint8_t>(even >> 4 | (odd & 0xf0));
  }
}

void split_halves(const uint8_t* low_first, int bytes, uint8_t* halves) {
  for (int j = 0; j < bytes / 2; ++j) {
    const uint8_t first = low_first[j], second = low_first[bytes / 2 + j];
    halves[2 * j] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
    halves[2 * j + 1] = static_cast<uint8_t>(first >> 4 | (second & 0xf0));
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
