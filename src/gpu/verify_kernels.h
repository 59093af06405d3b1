// Bit comparison of two arrays in device memory, reduced to a count and the first place: what verify needs to know.
#pragma once

#include "src/gpu/group.h"

namespace fp4::gpu {

struct Difference {
  int64_t count = 0;
  int64_t first = -1;  // index of the first differing word
};

// One result per group, of a contiguous share of the words; results in order of groups, so that the first one with a
// difference holds the first place.
struct CompareBits {
  static constexpr int shared_words = 4 * group_threads;
  static constexpr int groups_at_once = 1;
  const uint32_t* a = nullptr;
  const uint32_t* b = nullptr;
  int64_t count = 0;
  int64_t groups = 1;
  Difference* result = nullptr;  // [groups]

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    auto* found = reinterpret_cast<Difference*>(shared);
    const int64_t share = (count + groups - 1) / groups;
    const int64_t begin = number * share;
    const int64_t end = smaller(count, begin + share);
    group.for_each(group_threads, [&](int64_t thread) {
      Difference d;
      for (int64_t i = begin + thread; i < end; i += group_threads) {
        if (a[i] == b[i]) continue;
        if (d.count++ == 0) d.first = i;
      }
      found[thread] = d;
    });
    group.barrier();
    group.for_each(1, [&](int64_t) {
      Difference all;
      for (int thread = 0; thread < group_threads; ++thread) {
        const Difference& d = found[thread];
        if (d.count == 0) continue;
        all.count += d.count;
        if (all.first < 0 || d.first < all.first) all.first = d.first;
      }
      result[number] = all;
    });
  }
};

}  // namespace fp4::gpu
