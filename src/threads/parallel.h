// Decides: how a loop inside one large call is shared among threads. Iterations are independent, so any share gives the
// same bits. An exception (a scratch buffer that does not fit) leaves the loop as it would leave a plain one, which
// OpenMP alone turns into an abort; where the system refuses threads, fewer do the work; and every thread computes in
// the default floating-point environment, also one that the host program's own OpenMP loops have made.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "src/threads/float_environment.h"

namespace fp4 {

/// Threads that this machine runs at once, at least 1: what a command takes where nobody asks for another number.
int threads_of_machine();

/// How many of `wanted` threads can run, the caller among them: at least 1. Tries it by starting them all, once.
int threads_available(int wanted);

/// body(i) for i = begin, begin + step, .. below end, `chunk` iterations at a time to whichever thread is free.
template <class Body>
void parallel_for(int64_t begin, int64_t end, int64_t step, int threads, int chunk, const Body& body) {
  if (begin >= end) return;
  const int64_t count = (end - begin + step - 1) / step;
  const int crew =
      threads > 1 && count > 1 ? threads_available(static_cast<int>(count < threads ? count : threads)) : 1;
  if (crew == 1) {
    for (int64_t i = begin; i < end; i += step) body(i);
    return;
  }
  std::exception_ptr failure;
  std::atomic<bool> failed = false;
#pragma omp parallel num_threads(crew)
  {
    const DefaultFloatEnvironment floats;
#pragma omp for schedule(dynamic, chunk)
    for (int64_t n = 0; n < count; ++n) {
      if (failed) continue;
      try {
        body(begin + n * step);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fp4
