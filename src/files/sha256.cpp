// SHA-256 after FIPS 180-4: section 4.1.2 functions, 4.2.2 constants, 5.1.1 padding, 6.2.2 compression.
// Where the CPU has the SHA instructions the compression uses them: a manifest of a 4 GB tensor would otherwise spend
// most of its time here (0.26 against 1.8 GB/s, as much as OpenSSL's, on an AMD EPYC).
#include "src/files/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "src/text/byte_source.h"

namespace fp4 {
namespace {

constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load_big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

#if defined(__x86_64__)
// The same 64 rounds of block after block by the SHA extensions: sha256rnds2 does two rounds on the state split as
// (a b e f) and (c d g h), words in descending order; sha256msg1 and msg2 make four words of the schedule w.
__attribute__((target("sha,sse4.1"))) void compress_sha_extensions(std::uint32_t* state, const std::uint8_t* block,
                                                                   std::size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);  // big-endian words
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; blocks != 0; --blocks, block += 64) {
    const __m128i abef0 = abef, cdgh0 = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * i)), swap);
#pragma GCC unroll 16
    for (int t = 0; t < 16; ++t) {
      __m128i& now = w[t % 4];
      const __m128i sum = _mm_add_epi32(now, _mm_loadu_si128(reinterpret_cast<const __m128i*>(kRound + 4 * t)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      if (t >= 12) continue;  // the last 16 words of the schedule are made
      const __m128i before = w[(t + 3) % 4];
      const __m128i seventh = _mm_alignr_epi8(before, w[(t + 2) % 4], 4);  // w[t - 7]
      now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(t + 1) % 4]), seventh), before);
    }
    abef = _mm_add_epi32(abef, abef0);
    cdgh = _mm_add_epi32(cdgh, cdgh0);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

// CPUID leaf 7, EBX bit 29; g++ 12's __builtin_cpu_supports has no word for it.
bool has_sha_extensions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0 && __builtin_cpu_supports("sse4.1");
}
#endif

}  // namespace

void Sha256::compress(const std::uint8_t* block, std::size_t blocks) {
#if defined(__x86_64__)
  static const bool fast = has_sha_extensions();
  if (fast && !portable_) return compress_sha_extensions(state_.data(), block, blocks);
#endif
  for (std::size_t i = 0; i < blocks; ++i) compress_portable(block + 64 * i);
}

void Sha256::compress_portable(const std::uint8_t* block) {
  std::uint32_t w[64];
  for (int t = 0; t < 16; ++t) w[t] = load_big_endian(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = s1 + w[t - 7] + s0 + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int t = 0; t < 64; ++t) {
    const std::uint32_t big1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + big1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const std::uint32_t big0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = big0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::uint32_t result[8] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += result[i];
}

void Sha256::update(const void* data, std::size_t bytes) {
  if (bytes == 0) return;  // data may be null then
  const auto* p = static_cast<const std::uint8_t*>(data);
  const std::size_t held = length_ % 64;
  length_ += bytes;
  if (held != 0) {
    const std::size_t taken = std::min(bytes, 64 - held);
    std::memcpy(pending_.data() + held, p, taken);
    if (held + taken < 64) return;
    compress(pending_.data(), 1);
    p += taken;
    bytes -= taken;
  }
  compress(p, bytes / 64);
  if (bytes % 64 != 0) std::memcpy(pending_.data(), p + bytes / 64 * 64, bytes % 64);
}

std::string Sha256::hex() {
  // 5.1.1: one bit 1, zeros, and the length in bits as 64 big-endian bits at the end of a block.
  const std::uint64_t bits = length_ * 8;
  const std::uint8_t one = 0x80, zero = 0;
  update(&one, 1);
  while (length_ % 64 != 56) update(&zero, 1);
  std::uint8_t tail[8];
  for (int i = 0; i < 8; ++i) tail[i] = static_cast<std::uint8_t>(bits >> (56 - 8 * i));
  update(tail, 8);
  std::string text;
  for (const std::uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15];
  return text;
}

std::string sha256_hex(std::string_view data) {
  Sha256 hash;
  hash.update(data.data(), data.size());
  return hash.hex();
}

std::string sha256_file(const std::filesystem::path& path) {
  const Bytes file = open_file(path.string());
  Sha256 hash;
  std::vector<char> buffer(1 << 18);
  for (std::uint64_t at = 0; at < file->size();) {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), file->size() - at));
    file->read(at, buffer.data(), bytes);
    hash.update(buffer.data(), bytes);
    at += bytes;
  }
  return hash.hex();
}

}  // namespace fp4
