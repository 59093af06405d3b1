// GGUF's blocks of FP4 (ggml-common.h): MXFP4 is an E8M0 scale and 32 codes, NVFP4 four UE4M3 scales and four times 16
// codes. Byte j of n codes holds code j in the low nibble and code j + n/2 in the high one.
#pragma once

#include <vector>

#include "fp4/backend.h"
#include "src/files/gguf.h"

namespace fp4 {

struct GgufBlock {
  int scales;  // of a block, one byte each
  int codes;   // that share a scale
};
constexpr GgufBlock gguf_block(GgufValues values) {
  return values == GgufValues::nvfp4 ? GgufBlock{4, 16} : GgufBlock{1, 32};
}

// Bytes of low-first codes (the even column in the low nibble) from and to `bytes` bytes of a block, a multiple of 8.
void join_halves(const uint8_t* halves, int bytes, uint8_t* low_first);
void split_halves(const uint8_t* low_first, int bytes, uint8_t* halves);

// Codes and scales of rows that are whole blocks, as blocks.
std::vector<uint8_t> blocks_of(GgufValues values, const Quantized& q);

}  // namespace fp4
