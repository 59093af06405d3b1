// Decides: how a long stream of bands is shared among threads that sleep between their turns. Each band is fetched,
// worked on and handed on, once or in several steps; fetching and each step of handing on happen one at a time in
// ascending order, so a file is read, hashed and written as one thread would, while the other threads work.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <future>
#include <mutex>
#include <system_error>
#include <vector>

#include "src/float_environment.h"

namespace fp4 {

/// Work for another thread, or for this one when its result is asked for: alone, or where there are no more threads.
template <class Work>
auto beside(int threads, Work work) {
  try {
    return std::async(threads > 1 ? std::launch::async : std::launch::deferred, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

/// fetch(i, worker), work(i, worker), each give(i, worker) for i = 0 .. count - 1; worker is 0 .. threads - 1, and what
/// belongs to one worker is used by one thread at a time. While a band is in its second step, the next may be in its
/// first. Worker 0, the caller, has band 0. Of exceptions that of the lowest band leaves, and no later band is handed
/// on. Where the system refuses threads, fewer do the work.
template <class Fetch, class Work, class... Give>
void in_order(int64_t count, int threads, const Fetch& fetch, const Work& work, const Give&... give) {
  if (count <= 0) return;
  std::mutex fetching, turning;
  std::condition_variable turned;
  int64_t next = 1, failed_at = count;              // under fetching; under turning
  std::array<int64_t, sizeof...(Give)> turns = {};  // of each step, under turning
  std::exception_ptr failure;
  const auto failed = [&] {
    const std::lock_guard lock(turning);
    return failed_at < count;
  };
  const auto handed_on = [&](int64_t i, int worker, int64_t& turn, const auto& step) {
    std::unique_lock lock(turning);
    turned.wait(lock, [&] { return turn == i || failed_at < i; });
    if (failed_at < i) return false;
    lock.unlock();
    step(i, worker);
    lock.lock();
    ++turn;
    turned.notify_all();
    return true;
  };
  const auto run = [&](int worker, int64_t first) noexcept {
    for (int64_t i = first;;) {
      try {
        if (i >= 0) {
          work(i, worker);
          size_t step = 0;
          (handed_on(i, worker, turns[step++], give) && ...);
        }
        const std::lock_guard lock(fetching);
        if (next >= count || failed()) return;
        i = next++;
        fetch(i, worker);
      } catch (...) {
        const std::lock_guard lock(turning);
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
        turned.notify_all();
        return;
      }
    }
  };
  fetch(0, 0);
  {
    std::vector<std::future<void>> others;
    try {
      for (int worker = 1; worker < threads && worker < count; ++worker)
        others.push_back(std::async(std::launch::async, [&run, worker] {
          const DefaultFloatEnvironment floats;
          run(worker, -1);
        }));
    } catch (const std::system_error&) {
    }
    run(0, 0);
  }  // waits for the others
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fp4
