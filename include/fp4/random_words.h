// How a converting instruction takes the random bits of its elements out of one 32-bit word, so that a kernel's stream
// can be replayed. Element 0 of a group is the one whose code lies lowest: f of {a, b, e, f}, b of {a, b}.
// A B200 gives each element 16 bits, which are added at the top of the bits that it drops
// (rounding=stochastic_truncated, random_bits=16). A pair shares them, and its first element, e or a, reads them from
// the last to the first: of the word 12345678, cvt.rs.e2m1x4 gives f 3478, e 1e2c, b 1256, a 6a48, and e4m3x4 gives f
// 5678, e 1e6a, b 1234, a 2c48. The ISA text says nothing of the reversal: rows `_unreversed` are its letter. AMD's
// converters add the high bits of one word to the bits that each element of a pair loses, as many as a normal value
// loses (22 of fp32's fraction for e2m1): draws of 32 bits for rounding=stochastic_truncated, random_bits=32.
#pragma once

#include "fp4/axis.h"
#include "fp4/evidence.h"
#include "fp4/rng.h"

namespace fp4 {

enum class RandomPacking : uint8_t {
  stream,
  ptx_e2m1x4,
  ptx_f8x4,
  ptx_f6x4,
  ptx_e2m1x4_unreversed,
  ptx_f8x4_unreversed,
  ptx_bf16x2,
  ptx_f16x2,
  amd_fp4_f32,
  amd_fp4_bf16,
  amd_fp4_f16
};

struct RandomPackingInfo {
  RandomPacking id;
  const char* name;
  const char* doc;
  const char* source;
  Evidence evidence;
  int group;  // elements that share a word; 0: as `bits` says
  int bits;   // of a draw; 0: as asked for
};

// clang-format off
inline constexpr RandomPackingInfo random_packing_table[] = {
    {RandomPacking::stream, "stream", "draws one after the other, lowest bits first", "rng.h", Evidence::defined, 0, 0},
    {RandomPacking::ptx_e2m1x4, "ptx_e2m1x4", "e and f share bytes 2 and 0, a and b bytes 3 and 1; e and a read them reversed",
     "cvt.rs.e2m1x4 on a B200: mlc-ai/TIRx-harness", Evidence::measured, 4, 16},
    {RandomPacking::ptx_f8x4, "ptx_f8x4", "e and f share bits 0-15, a and b bits 16-31; e and a read them reversed",
     "cvt.rs to e4m3x4 and e5m2x4 on a B200: mlc-ai/TIRx-harness", Evidence::measured, 4, 16},
    {RandomPacking::ptx_f6x4, "ptx_f6x4", "as ptx_f8x4", "PTX ISA cvt.rs to e2m3x4 and e3m2x4, with the reversal of ptx_f8x4", Evidence::modelled, 4, 16},
    {RandomPacking::ptx_e2m1x4_unreversed, "ptx_e2m1x4_unreversed", "e and f share bytes 2 and 0, a and b bytes 3 and 1",
     "PTX ISA cvt.rs.e2m1x4 to the letter; a B200 does ptx_e2m1x4", Evidence::documented, 4, 16},
    {RandomPacking::ptx_f8x4_unreversed, "ptx_f8x4_unreversed", "e and f share bits 0-15, a and b bits 16-31",
     "PTX ISA cvt.rs to e4m3x4, e5m2x4, e2m3x4, e3m2x4 to the letter; a B200 does ptx_f8x4", Evidence::documented, 4, 16},
    {RandomPacking::ptx_bf16x2, "ptx_bf16x2", "b bits 0-15, a bits 16-31", "PTX ISA cvt.rs.bf16x2", Evidence::documented, 2, 16},
    {RandomPacking::ptx_f16x2, "ptx_f16x2", "b bits 0-12, a bits 16-28", "PTX ISA cvt.rs.f16x2", Evidence::documented, 2, 13},
    {RandomPacking::amd_fp4_f32, "amd_fp4_f32", "both elements take bits 10-31, zeros below",
     "ROCm amd_hip_ocp_host.hpp; v_cvt_scalef32_sr_pk_fp4_f32", Evidence::documented, 2, 32},
    {RandomPacking::amd_fp4_bf16, "amd_fp4_bf16", "both elements take bits 26-31, zeros below",
     "ROCm amd_hip_ocp_host.hpp; v_cvt_scalef32_sr_pk_fp4_bf16", Evidence::documented, 2, 32},
    {RandomPacking::amd_fp4_f16, "amd_fp4_f16", "both elements take bits 23-31, zeros below",
     "ROCm amd_hip_ocp_host.hpp; v_cvt_scalef32_sr_pk_fp4_f16", Evidence::documented, 2, 32},
};
// clang-format on
static_assert(ids_are_indices(random_packing_table));

FP4_HD constexpr uint32_t reversed_16_bits(uint32_t x) {
  uint32_t out = 0;
  for (int i = 0; i < 16; ++i) out |= (x >> i & 1u) << (15 - i);
  return out;
}

// The bits of element i of a group in its word; not for `stream`.
FP4_HD constexpr uint32_t bits_in_word(RandomPacking packing, uint32_t word, uint32_t i) {
  const uint32_t half = (word >> (16 * (i / 2))) & 0xFFFFu;  // of pairs
  const uint32_t bytes = ((word >> (8 * (i / 2))) & 0xFFu) | ((word >> (8 * (i / 2) + 8)) & 0xFF00u);
  switch (packing) {
    case RandomPacking::stream: return word;
    case RandomPacking::ptx_e2m1x4: return i % 2 == 0 ? bytes : reversed_16_bits(bytes);
    case RandomPacking::ptx_f8x4:
    case RandomPacking::ptx_f6x4: return i % 2 == 0 ? half : reversed_16_bits(half);
    case RandomPacking::ptx_e2m1x4_unreversed: return bytes;
    case RandomPacking::ptx_f8x4_unreversed: return half;
    case RandomPacking::ptx_bf16x2: return (word >> (16 * i)) & 0xFFFFu;
    case RandomPacking::ptx_f16x2: return (word >> (16 * i)) & 0x1FFFu;
    case RandomPacking::amd_fp4_f32: return word & 0xFFFFFC00u;
    case RandomPacking::amd_fp4_bf16: return word & 0xFC000000u;
    case RandomPacking::amd_fp4_f16: return word & 0xFF800000u;
  }
  return word;
}

// The draw of position i: word floor(i / group) of the stream of `at`, `bits` wide for `stream`.
FP4_HD constexpr uint32_t packed_draw(RandomPacking packing, RandomPlace at, uint64_t i, int bits) {
  if (packing == RandomPacking::stream) return random_draw(at, i, bits);
  const auto group = static_cast<uint64_t>(random_packing_table[static_cast<int>(packing)].group);
  return bits_in_word(packing, random_draw(at, i / group, 32), static_cast<uint32_t>(i % group));
}

}  // namespace fp4
