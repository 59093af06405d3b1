// FP4 codes of a checkpoint: back to numbers in the order of operations of a scheme's owner, from and to GGUF's blocks.
#pragma once

#include <vector>

#include "src/backends/backends.h"
#include "src/model/scheme.h"

namespace fp4 {

// What decodes a scheme's codes and scales.
QuantSpec reading_spec(const CheckpointScheme& scheme);

// FP4 codes in blocks along the row under q.spec and at most one factor, to float32 [rows, cols]. Equal bit for bit to
// the core's decoding; orders that the fast backends decline are done here.
void decode_weight(const Dispatcher& backend, const Quantized& q, float* out, int threads);

// GGUF's blocks of FP4 (ggml-common.h): MXFP4 is an E8M0 scale and 32 codes, NVFP4 four UE4M3 scales and four times 16
// codes. Byte j of n codes holds code j in the low nibble and code j + n/2 in the high one.
struct GgufBlock {
  int scales;  // of a block, one byte each
  int codes;   // that share a scale
};
constexpr GgufBlock gguf_block(GgufValues values) {
  return values == GgufValues::nvfp4 ? GgufBlock{4, 16} : GgufBlock{1, 32};
}

// Bytes of low-first codes (the even column in the low nibble) from `bytes` bytes of a block, a multiple of 8.
void join_halves(const uint8_t* halves, int bytes, uint8_t* low_first);

// Codes and scales of rows that are whole blocks, as blocks.
std::vector<uint8_t> blocks_of(GgufValues values, const Quantized& q);

// E8M0 scales of 32 elements as E4M3 scales of 16 under 2^power, and the packed codes rounded where they have to be.
void to_exact_nvfp4(int power, std::vector<std::uint8_t>& scales, std::vector<std::uint8_t>& codes);

}  // namespace fp4
