// Random draws of eight bits as they lie in memory, for runs along a row.
#pragma once

#include "fp4/rng.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::avx512 {

// Philox4x32-10 of counters (block, 0, stream, step) for the draws of runs. Three words start the same for all blocks,
// so parts of the first three rounds are known beforehand.
struct RunKeys {
  uint64_t add2[3];   // what word 2 of the first three rounds is combined with besides what varies
  uint64_t add0 = 0;  // and word 0 of the second one
  uint64_t key0[10];
  uint64_t key1[10];
};

inline constexpr uint32_t philox_m0 = 0xD2511F53u;
inline constexpr uint32_t philox_m1 = 0xCD9E8D57u;

inline RunKeys run_keys(const RandomPlace& place) {
  RunKeys k;
  auto key0 = static_cast<uint32_t>(place.seed);
  auto key1 = static_cast<uint32_t>(place.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    k.key0[round] = key0;
    k.key1[round] = key1;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const uint64_t first1 = uint64_t{philox_m1} * place.stream;
  const uint64_t second0 = uint64_t{philox_m0} * static_cast<uint32_t>((first1 >> 32) ^ k.key0[0]);
  k.add2[0] = place.step ^ k.key1[0];
  k.add0 = static_cast<uint32_t>(first1) ^ k.key0[1];
  k.add2[1] = (second0 >> 32) ^ k.key1[1];
  k.add2[2] = static_cast<uint32_t>(second0) ^ k.key1[2];
  return k;
}

FP4_SIMD __m512i high_word(__m512i product) { return _mm512_srli_epi64(product, 32); }
FP4_SIMD __m512i mixed(__m512i a, __m512i b, uint64_t key) {
  return _mm512_ternarylogic_epi64(a, b, _mm512_set1_epi64(static_cast<int64_t>(key)), 0x96);
}

// Words of 32 blocks in four vectors each: blocks of even and of odd lanes apart, as 64-bit products need it, and two
// times sixteen blocks interleaved, as a round is a chain of three instructions.
struct RunWords {
  __m512i c[4][4];  // [chain][word]
};
FP4_SIMD RunWords run_words(const RunKeys& k, I low_blocks, I high_blocks) {
  RunWords w;
  const __m512i m0 = _mm512_set1_epi64(philox_m0);
  const __m512i m1 = _mm512_set1_epi64(philox_m1);
  const __m512i block[4] = {low_blocks.v, high_word(low_blocks.v), high_blocks.v, high_word(high_blocks.v)};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i p0 = _mm512_mul_epu32(m0, block[i]);
    const __m512i word2 = _mm512_xor_si512(high_word(p0), _mm512_set1_epi64(static_cast<int64_t>(k.add2[0])));
    const __m512i p1 = _mm512_mul_epu32(m1, word2);
    const __m512i word0 = _mm512_xor_si512(high_word(p1), _mm512_set1_epi64(static_cast<int64_t>(k.add0)));
    const __m512i next2 = _mm512_xor_si512(p0, _mm512_set1_epi64(static_cast<int64_t>(k.add2[1])));
    const __m512i q0 = _mm512_mul_epu32(m0, word0);
    const __m512i q1 = _mm512_mul_epu32(m1, next2);
    w.c[i][0] = mixed(high_word(q1), p1, k.key0[2]);
    w.c[i][1] = q1;
    w.c[i][2] = _mm512_xor_si512(high_word(q0), _mm512_set1_epi64(static_cast<int64_t>(k.add2[2])));
    w.c[i][3] = q0;
  }
#pragma GCC unroll 7
  for (int round = 3; round < 10; ++round) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m512i(&c)[4] = w.c[i];
      const __m512i p0 = _mm512_mul_epu32(m0, c[0]);
      const __m512i p1 = _mm512_mul_epu32(m1, c[2]);
      c[0] = mixed(high_word(p1), c[1], k.key0[round]);
      c[2] = mixed(high_word(p0), c[3], k.key1[round]);
      c[1] = p1;
      c[3] = p0;
    }
  }
  return w;
}

// Draws of 512 adjacent elements, of Philox blocks `first` to `first` + 31. Of every eight blocks those of even vectors
// come first, as codes are formed; each four are stored as draw_at says, which leaves little to move.
constexpr int draw_at(int block, int draw) { return draw / 8 * 32 + block * 8 + draw % 8; }
FP4_SIMD void fill_run_draws(const RunKeys& k, uint32_t first, uint8_t* out) {
  const I order = {_mm512_setr_epi32(0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15)};
  const RunWords w = run_words(k, order + all(first), order + all(first + 16));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i(&c)[4] = w.c[i];
    const __m512i low = _mm512_mask_shuffle_epi32(c[0], 0xAAAA, c[1], _MM_PERM_CCAA);
    const __m512i high = _mm512_mask_shuffle_epi32(c[2], 0xAAAA, c[3], _MM_PERM_CCAA);
    _mm512_store_si512(out + i * 128, _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1));
    _mm512_store_si512(out + i * 128 + 64, _mm512_shuffle_i64x2(low, high, 0xEE));
  }
}

}  // namespace fp4::avx512
