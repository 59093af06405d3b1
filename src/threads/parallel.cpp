// What to do when the system refuses a thread: OpenMP's own runtime would end the process.
#include "src/threads/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

namespace fp4 {

namespace {

// A process that is forked from one whose loops have run on several threads has none of them, and OpenMP waits for them
// for ever: the child's loops run on the thread that calls. Workers of a data loader share the machine's cores anyway.
std::mutex trying;
std::atomic<int> proven = 1;
std::atomic<bool> alone = false;

const int registered = ::pthread_atfork([] { trying.lock(); }, [] { trying.unlock(); },
                                        [] {
                                          alone = alone || proven > 1;
                                          trying.unlock();
                                        });

}  // namespace

int threads_of_machine() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

int threads_available(int wanted) {
  if (alone) return 1;
  if (wanted <= proven) return std::max(wanted, 1);
  const std::lock_guard lock(trying);
  std::latch together(1);
  std::vector<std::thread> crew;
  try {
    crew.reserve(static_cast<size_t>(wanted));
    while (static_cast<int>(crew.size()) + 1 < wanted) crew.emplace_back([&] { together.wait(); });
  } catch (const std::exception&) {  // system_error: a limit on processes or memory is reached
  }
  together.count_down();
  for (std::thread& thread : crew) thread.join();
  const int got = static_cast<int>(crew.size()) + 1;
  if (got == wanted) proven = std::max<int>(proven, got);
  return got;
}

}  // namespace fp4
