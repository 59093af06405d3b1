// Where the random bits of element rounding come from. `philox` is the fair stream of rng.h; the others are faults that
// kernels have, so that one can be named and what it costs a training can be seen. All are words of 32 bits: position i
// of an operand takes bits i*n to i*n+n-1, low bits first (i = row*K + k; n = random_bits). Scale rounding and signs
// of Hadamards keep their own streams.
#pragma once

#include "fp4/axis.h"
#include "fp4/rng.h"

namespace fp4 {

enum class RandomStream : uint8_t {
  philox,
  counter,
  constant,
  pairs,
  repeat_16,
  repeat_32,
  repeat_64,
  repeat_128,
  repeat_256,
  one_rank
};

inline constexpr AxisRow<RandomStream> random_stream_table[] = {
    {RandomStream::philox, "philox", "Philox4x32-10 of the position", "rng.h"},
    {RandomStream::counter, "counter", "word j is the seed's low word + j", "fault: a counter that nothing mixes"},
    {RandomStream::constant, "constant", "every word is the first one of the tensor",
     "fault: bits drawn once, before the loop"},
    {RandomStream::pairs, "pairs", "columns 2j and 2j+1 take the draw of 2j",
     "fault: cvt.rs fed the same half of a word twice"},
    {RandomStream::repeat_16, "repeat_16", "column k takes the draw of column k mod 16 of its row",
     "fault: a counter that the loop over K leaves alone"},
    {RandomStream::repeat_32, "repeat_32", "the same with 32", "as repeat_16"},
    {RandomStream::repeat_64, "repeat_64", "the same with 64", "as repeat_16"},
    {RandomStream::repeat_128, "repeat_128", "the same with 128", "as repeat_16"},
    {RandomStream::repeat_256, "repeat_256", "the same with 256", "as repeat_16"},
    {RandomStream::one_rank, "one_rank", "the seed's high word, in which ranks differ, counts as 0",
     "fault: all ranks seeded alike"},
};
static_assert(ids_are_indices(random_stream_table));

// Columns after which the draws of a row repeat; 0: never.
constexpr uint64_t repeat_of(RandomStream stream) {
  switch (stream) {
    case RandomStream::repeat_16: return 16;
    case RandomStream::repeat_32: return 32;
    case RandomStream::repeat_64: return 64;
    case RandomStream::repeat_128: return 128;
    case RandomStream::repeat_256: return 256;
    case RandomStream::philox:
    case RandomStream::counter:
    case RandomStream::constant:
    case RandomStream::pairs:
    case RandomStream::one_rank: return 0;
  }
  return 0;
}

// The draw of position i of an operand of `cols` columns; `bits` divides 32.
constexpr uint32_t stream_draw(RandomStream stream, RandomPlace at, uint64_t i, uint64_t cols, int bits) {
  const uint64_t col = cols > 0 ? i % cols : 0;
  const uint64_t first_bit = i * static_cast<uint64_t>(bits);
  const auto cut = [&](uint32_t word) {
    return word >> (first_bit % 32) & (bits == 32 ? ~uint32_t{0} : (uint32_t{1} << bits) - 1);
  };
  switch (stream) {
    case RandomStream::philox: break;
    case RandomStream::counter: return cut(static_cast<uint32_t>(at.seed) + static_cast<uint32_t>(first_bit / 32));
    case RandomStream::constant: return cut(random_draw(at, 0, 32));
    case RandomStream::pairs: return random_draw(at, i - col % 2, bits);
    case RandomStream::repeat_16:
    case RandomStream::repeat_32:
    case RandomStream::repeat_64:
    case RandomStream::repeat_128:
    case RandomStream::repeat_256: return random_draw(at, i - col + col % repeat_of(stream), bits);
    case RandomStream::one_rank: return random_draw({at.seed & 0xFFFFFFFFu, at.stream, at.step}, i, bits);
  }
  return random_draw(at, i, bits);
}

}  // namespace fp4
