// The way of a run's batches from memory, and of its codes to memory.
#pragma once

#include "src/cpu/simd/lanes.h"

namespace fp4::avx512 {

// 512 elements on their way: two runs of blocks of 16, or one of blocks of 32.
inline constexpr int batch_length = 512;

// Where later batches begin: in L1 before they are read, and in L2 long before that. A few lines are asked for at a
// time, all the while: in one burst they would hold the buffers of a core for as long as memory takes, and its loads
// with them.
struct Ahead {
  const float* near;
  const float* far;
};
FP4_SIMD Ahead ahead_of(const float* x, int64_t batch) {
  const float* here = x + batch * batch_length;
  return {here + 4 * batch_length, here + 12 * batch_length};
}

// For vectors first to first + count - 1 of the batch that is encoded.
template <int count>
FP4_SIMD void fetch_lines(const Ahead& a, int first) {
#pragma GCC unroll 8
  for (int v = first; v < first + count; ++v) {
    prefetch_far(a.far + v * 16);
    prefetch(a.near + v * 16);
  }
}

// Codes of batches of `bytes` that follow each other, a line at a time past the caches: a store that misses has memory
// read the line first. A batch waits here until the next one comes, as loads cannot have what was only just stored.
template <int bytes>
class StreamedCodes {
 public:
  FP4_SIMD explicit StreamedCodes(const uint8_t* codes)
      : before_(static_cast<int>(reinterpret_cast<uintptr_t>(codes) % 64)) {}

  // Where the codes that go to `out` are to be written.
  FP4_SIMD uint8_t* next(uint8_t* out) {
    flush();
    line_ = out - before_;
    return lines_ + before_;
  }

  // Before others write codes.
  FP4_SIMD void close() {
    flush();
    if (follows_) _mm512_mask_storeu_epi8(tail_, ~own_bytes(), _mm512_load_si512(lines_));
    follows_ = false;
  }

 private:
  FP4_SIMD __mmask64 own_bytes() const { return ~__mmask64{0} << before_; }  // of the first line

  FP4_SIMD void flush() {
    if (line_ == nullptr) return;
    const __m512i first = _mm512_load_si512(lines_);
    if (follows_ || before_ == 0) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(line_), first);
    } else {
      _mm512_mask_storeu_epi8(line_, own_bytes(), first);
    }
#pragma GCC unroll 8
    for (int i = 64; i < bytes; i += 64) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(line_ + i), _mm512_load_si512(lines_ + i));
    }
    _mm512_store_si512(lines_, _mm512_load_si512(lines_ + bytes));
    tail_ = line_ + bytes;
    follows_ = true;
    line_ = nullptr;
  }

  alignas(64) uint8_t lines_[bytes + 64];
  int before_;               // bytes of the first line that are not of the batch
  uint8_t* line_ = nullptr;  // of the batch that waits
  uint8_t* tail_ = nullptr;
  bool follows_ = false;  // the end of the batch before is in lines_
};

}  // namespace fp4::avx512
