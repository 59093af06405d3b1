// Does a shared loop do every iteration once, pass exceptions on, and compute in the default floating-point environment
// whatever its threads were made under?
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "src/threads/in_order.h"
#include "src/threads/parallel.h"
#include "tests/support/host_floats.h"

using namespace fp4;

TEST_CASE("every iteration runs once, for any number of threads", "[quick]") {
  for (const int threads : {1, 2, 5})
    for (const int64_t count : {0, 1, 2, 3, 100})
      for (const int64_t step : {1, 7}) {
        std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
        parallel_for(0, count, step, threads, 4, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
        for (int64_t i = 0; i < count; ++i) CHECK(runs[static_cast<size_t>(i)] == (i % step == 0 ? 1 : 0));
      }
  // An empty operand has a step of 0: no iteration, and no division by it.
  parallel_for(0, 0, 0, 2, 1, [](int64_t) { FAIL("an iteration of an empty loop"); });
}

TEST_CASE("an exception leaves the loop as it leaves a plain one", "[quick]") {
  for (const int threads : {1, 2, 4}) {
    CHECK_THROWS_AS(parallel_for(0, 100, 1, threads, 1,
                                 [](int64_t i) {
                                   if (i == 37) throw std::bad_alloc();
                                 }),
                    std::bad_alloc);
    CHECK_THROWS_AS(parallel_for(0, 100, 1, threads, 1, [](int64_t) { throw std::runtime_error("all"); }),
                    std::runtime_error);
    int64_t sum = 0;  // and the next loop works
    std::vector<int64_t> values(10);
    parallel_for(0, 10, 1, threads, 1, [&](int64_t i) { values[static_cast<size_t>(i)] = i; });
    sum = std::accumulate(values.begin(), values.end(), int64_t{0});
    CHECK(sum == 45);
  }
}

TEST_CASE("threads of the host's own loops compute in the default environment here, and keep theirs", "[quick]") {
  const uint64_t standard = [] {
    const DefaultFloatEnvironment floats;
    return test::float_control();
  }();
  for (const test::HostFloats& host : test::host_environments()) {
    INFO(host.name);
    std::fenv_t before;
    std::fegetenv(&before);
    std::vector<uint64_t> seen(64, 0), hosts(2, 0);
    uint64_t own = 0, after = 0;
#pragma omp parallel num_threads(2)
    test::set_host_floats(host);
    own = test::float_control();
    parallel_for(0, 64, 1, 2, 1, [&](int64_t i) { seen[static_cast<size_t>(i)] = test::float_control(); });
    after = test::float_control();
#pragma omp parallel for num_threads(2) schedule(static, 1)
    for (int i = 0; i < 2; ++i) hosts[static_cast<size_t>(i)] = test::float_control();
#pragma omp parallel num_threads(2)
    std::fesetenv(FE_DFL_ENV);
    std::fesetenv(&before);
    for (const uint64_t control : seen) CHECK(control == standard);
    CHECK(after == own);
    CHECK(hosts == std::vector<uint64_t>(2, own));
  }
}

TEST_CASE("bands are fetched and handed on in order, whoever works on them", "[quick]") {
  for (const int threads : {1, 2, 3, 7})
    for (const int64_t count : {0, 1, 2, 5, 200}) {
      std::vector<int64_t> fetched, hashed, given;
      std::vector<std::atomic<int>> busy(static_cast<size_t>(threads));
      std::atomic<int> worked = 0;
      std::atomic<bool> shared = false;  // a worker with two bands, or band 0 with another than the caller
      in_order(
          count, threads,
          [&](int64_t i, int worker) {
            if (busy[static_cast<size_t>(worker)]++ != 0) shared = true;
            if (i == 0 && worker != 0) shared = true;
            fetched.push_back(i);
          },
          [&](int64_t i, int) {
            std::this_thread::sleep_for(std::chrono::microseconds(i % 7 * 20));
            ++worked;
          },
          [&](int64_t i, int) { hashed.push_back(i); },
          [&](int64_t i, int worker) {
            given.push_back(i);
            --busy[static_cast<size_t>(worker)];
          });
      std::vector<int64_t> all(static_cast<size_t>(count));
      std::iota(all.begin(), all.end(), 0);
      CHECK(fetched == all);
      CHECK(hashed == all);
      CHECK(given == all);
      CHECK(worked == count);
      CHECK(!shared);
    }
}

TEST_CASE("the error of the lowest band leaves a stream, and no later band is handed on", "[quick]") {
  for (const int threads : {1, 2, 4})
    for (const int stage : {0, 1, 2, 3}) {
      std::vector<int64_t> hashed, given;
      const auto fail = [&](int at, int64_t i) {
        if (at == stage && i >= 10) throw std::runtime_error(std::to_string(i));
      };
      CHECK_THROWS_WITH(in_order(
                            50, threads, [&](int64_t i, int) { fail(0, i); }, [&](int64_t i, int) { fail(1, i); },
                            [&](int64_t i, int) {
                              fail(2, i);
                              hashed.push_back(i);
                            },
                            [&](int64_t i, int) {
                              fail(3, i);
                              given.push_back(i);
                            }),
                        "10");
      std::vector<int64_t> ten(10);
      std::iota(ten.begin(), ten.end(), 0);
      CHECK(given == ten);
      CHECK(hashed.size() >= 10);
      // A step that fails keeps later bands from its own turn, not from the step in front.
      if (stage < 3) CHECK(hashed == ten);
    }
}

// Two streams of 4 inside each of 4 bands would be 16 threads of their own; the pool has as many as the machine has
// cores.
TEST_CASE("a stream inside a stream starts no more threads than the machine has cores", "[quick]") {
  std::atomic<int> working = 0, most = 0;
  std::atomic<int64_t> bands = 0;
  const auto nothing = [](int64_t, int) {};
  const auto inner = [&](int64_t, int) {
    const int now = ++working;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    ++bands;
    --working;
  };
  in_order(
      20, 4, nothing, [&](int64_t, int) { in_order(20, 4, nothing, inner, nothing); }, nothing);
  CHECK(bands == 400);
  CHECK(most <= threads_of_machine());
}

// Without the child's own rule it waits for threads that stayed with its parent; the alarm ends it then.
TEST_CASE("a process that is forked after a loop on several threads runs its loops alone", "[quick]") {
  const auto sum_of_loop = [](int threads) {
    std::vector<int64_t> values(1000);
    parallel_for(0, 1000, 1, threads, 1, [&](int64_t i) { values[static_cast<size_t>(i)] = i; });
    return std::accumulate(values.begin(), values.end(), int64_t{0});
  };
  const auto ends_well = [](pid_t child) {
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  REQUIRE(sum_of_loop(4) == 499500);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const pid_t inner = ::fork();  // as a worker that starts workers
    if (inner == 0) ::_exit(sum_of_loop(4) == 499500 && threads_available(4) == 1 ? 0 : 1);
    ::_exit(ends_well(inner) && sum_of_loop(4) == 499500 ? 0 : 1);
  }
  CHECK(sum_of_loop(4) == 499500);
  CHECK(ends_well(child));
  CHECK(threads_available(2) == 2);  // the parent keeps its own
}
