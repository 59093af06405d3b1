#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>

#include "src/text/error.h"
#include "sweeps/judge/statistics.h"
#include "tools/bench/benches.h"

namespace fp4::tools {
static double seconds_of(const std::function<void()>& run, int threads) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const auto now = [clock] {
    timespec t = {};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  run();
  return now() - start;
}

void race(const Race& race, const std::vector<Contestant>& contestants, const BenchReport& report) {
  std::vector<std::vector<double>> times(contestants.size());
  const auto laps = static_cast<size_t>(race.rounds) + 1;  // the first warms caches, pages and arenas
  for (size_t lap = 0; lap < laps; ++lap) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      report.progress(lap * contestants.size() + i, laps * contestants.size(), contestants[i].name);
      const double seconds = seconds_of(contestants[i].run, race.threads);
      if (lap > 0) times[i].push_back(seconds);
    }
  }
  std::vector<double> seconds;
  double best = 0;
  for (size_t i = 0; i < contestants.size(); ++i) {
    seconds.push_back(sweeps::quantile(times[i], 0.5));
    if (contestants[i].is_baseline) best = std::max(best, contestants[i].work / seconds[i]);
  }
  std::vector<BenchRow> rows;
  for (size_t i = 0; i < contestants.size(); ++i) {
    const Contestant& c = contestants[i];
    const double rate = c.work / seconds[i];
    rows.push_back({c.name, c.backend, race.threads, race.size, seconds[i], race.unit, rate / 1e9, race.baseline,
                    best > 0 ? rate / best : 0});
  }
  report.show(rows);
}

std::vector<float> gaussian(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

void require_equal(const std::string& name, const void* got, const void* expected, size_t bytes) {
  if (std::memcmp(got, expected, bytes) != 0)
    throw Error("bench: " + name + " differs from the reference; not timed", Error::failed);
}

}  // namespace fp4::tools
