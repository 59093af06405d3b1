// Contestants take turns, and medians are compared: other work on the machine then slows all of them alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fp4::tools {

// A row of `fp4sim bench`. Ratio: rate over the rate of the baseline, which ran in the same race.
struct BenchRow {
  std::string bench;
  std::string backend;
  int threads = 1;
  std::string size;
  double seconds = 0;
  std::string unit;
  double rate = 0;
  std::string baseline;
  double ratio = 0;
};

// Something to run, how much work it is, and whether it is the yardstick of the others.
struct Contestant {
  std::string name;
  std::string backend;
  double work = 0;
  bool is_baseline = false;
  std::function<void()> run;
};

struct Race {
  std::string size;
  std::string unit;  // of 1e9 work a second
  std::string baseline;
  // One thread is timed by its own CPU time, which other programs do not stretch; several by the clock.
  int threads = 1;
  int rounds = 9;
};

// What a benchmark says while it runs, and the rows of each race when it has ended.
struct BenchReport {
  std::function<void(size_t done, size_t all, const std::string& doing)> progress;
  std::function<void(const std::vector<BenchRow>&)> show;
};

// A row for each contestant; the best baseline is what ratios refer to, 0 where there is none.
void race(const Race& race, const std::vector<Contestant>& contestants, const BenchReport& report);

std::vector<float> gaussian(int64_t n, uint32_t seed);

// Throws Error (exit code 1): a wrong kernel is not timed.
void require_equal(const std::string& name, const void* got, const void* expected, size_t bytes);

}  // namespace fp4::tools
