// The measuring loop. A thread samples while the work runs in the caller's thread; the first and the last sample fall
// on the marks of the window, so the sum of P_i dt_i covers it exactly.
#include "sweeps/cost/meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "src/error.h"

namespace fp4::cost {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Samples the sensors in the background while a window lasts.
class Sampler {
 public:
  Sampler(std::vector<std::unique_ptr<EnergySensor>>& sensors, double period) : sensors_(sensors), period_(period) {
    for (auto& sensor : sensors_) sensor->start();
    thread_ = std::thread([this] { run(); });
  }
  ~Sampler() { finish(); }

  std::vector<double> finish() {
    if (!thread_.joinable()) return {};
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
    std::vector<double> joules;
    for (auto& sensor : sensors_) joules.push_back(sensor->stop());
    return joules;
  }

 private:
  void run() {
    Clock::time_point last = Clock::now();
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait_for(lock, std::chrono::duration<double>(period_), [this] { return done_; });
      const double elapsed = since(last);
      last = Clock::now();
      for (auto& sensor : sensors_) sensor->sample(elapsed);
      if (done_) return;
    }
  }

  std::vector<std::unique_ptr<EnergySensor>>& sensors_;
  const double period_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

double joules_per_repetition(const EnergyWindow& window) {
  double total = 0;
  for (const double joules : window.joules) total += joules;
  return total / window.repetitions;
}

}  // namespace

EnergyReading measure_energy(const std::function<void()>& work, SensorSearch search, const MeterOptions& options) {
  if (search.sensors.empty()) {
    std::string reasons;
    for (const std::string& reason : search.unavailable) reasons += "\n  " + reason;
    throw Error("energy: unavailable on this machine" + reasons, 1);
  }
  EnergyReading reading;
  for (const auto& sensor : search.sensors) reading.sensors.push_back(sensor->name());
  for (int run = 0; run < options.runs; ++run) {
    EnergyWindow window;
    const Clock::time_point start = Clock::now();
    Sampler sampler(search.sensors, options.sample_s);
    do {
      work();
      ++window.repetitions;
    } while (since(start) < options.window_s);
    window.joules = sampler.finish();
    window.seconds = since(start);
    reading.windows.push_back(std::move(window));
  }
  std::vector<EnergyWindow> kept = reading.windows;
  std::sort(kept.begin(), kept.end(),
            [](const auto& a, const auto& b) { return joules_per_repetition(a) < joules_per_repetition(b); });
  if (kept.size() >= 3) {
    kept.pop_back();
    kept.erase(kept.begin());
  }
  double seconds = 0, joules = 0, repetitions = 0;
  for (const EnergyWindow& window : kept) {
    seconds += window.seconds;
    joules += joules_per_repetition(window) * window.repetitions;
    repetitions += window.repetitions;
  }
  reading.seconds_per_repetition = seconds / repetitions;
  reading.joules_per_repetition = joules / repetitions;
  reading.watts = joules / seconds;
  return reading;
}

}  // namespace fp4::cost
