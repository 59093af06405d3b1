// Memory of large arrays in pages of 2 MiB, where the system has them: one fault in place of 512.
#pragma once

#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <vector>

namespace fp4 {

// From here on memory that is freed stays with the process, so that the next large array need not be cleared again: for
// a command that makes and drops hundreds of them. It costs the largest sum of what was held at once.
inline void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

template <class T>
std::vector<T> large_vector(size_t count) {
  std::vector<T> out;
  out.reserve(count);
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t page = uintptr_t{1} << 21;
  const auto begin = reinterpret_cast<uintptr_t>(out.data());
  const uintptr_t first = (begin + page - 1) / page * page, end = (begin + count * sizeof(T)) / page * page;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);  // a hint: small pages do, too
#endif
  out.resize(count);
  return out;
}

}  // namespace fp4
