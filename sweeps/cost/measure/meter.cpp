// The measuring loop. A thread samples while the work runs in the caller's thread; the caller takes the last sample,
// and both marks of the window, so the sum of P_i dt_i covers it exactly, however late the thread starts.
#include "sweeps/cost/measure/meter.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "src/text/error.h"

namespace fp4::cost {

namespace {

using Clock = std::chrono::steady_clock;

double between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// Samples the sensors in the background from now until `finish`.
class Sampler {
 public:
  Sampler(std::vector<std::unique_ptr<EnergySensor>>& sensors, double period)
      : sensors_(sensors), period_(period), start_(Clock::now()), last_(start_) {
    for (auto& sensor : sensors_) sensor->start();
    thread_ = std::thread([this] { run(); });
  }
  ~Sampler() { stop(); }

  double seconds() const { return between(start_, Clock::now()); }

  // Fills seconds and joules of the window.
  void finish(EnergyWindow& window) {
    stop();
    sample();
    window.seconds = between(start_, last_);
    for (auto& sensor : sensors_) window.joules.push_back(sensor->joules());
    window.total = trace_.back().joules;
    window.trace = std::move(trace_);
  }

 private:
  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void sample() {
    const Clock::time_point now = Clock::now();
    const double elapsed = between(last_, now);
    last_ = now;
    double parts = 0, whole = 0;
    bool any_whole = false;
    for (auto& sensor : sensors_) {
      sensor->sample(elapsed);
      any_whole |= sensor->whole_machine();
      (sensor->whole_machine() ? whole : parts) += sensor->joules();
    }
    trace_.push_back({between(start_, now), any_whole ? whole : parts});
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, std::chrono::duration<double>(period_), [this] { return done_; })) sample();
  }

  std::vector<std::unique_ptr<EnergySensor>>& sensors_;
  const double period_;
  const Clock::time_point start_;
  Clock::time_point last_;           // the thread's until it is joined,
  std::vector<EnergySample> trace_;  // as is this
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

double joules_per_repetition(const EnergyWindow& window) { return window.total / window.repetitions; }

}  // namespace

EnergyReading measure_energy(const std::function<void()>& work, SensorSearch search, const MeterOptions& options) {
  if (search.sensors.empty()) {
    std::string reasons;
    for (const std::string& reason : search.unavailable) reasons += "\n  " + reason;
    throw Error("energy: unavailable on this machine" + reasons, Error::failed);
  }
  EnergyReading reading;
  for (const auto& sensor : search.sensors) reading.sensors.push_back(sensor->name());
  for (int run = 0; run < options.runs; ++run) {
    EnergyWindow window;
    Sampler sampler(search.sensors, options.sample_s);
    do {
      work();
      ++window.repetitions;
    } while (sampler.seconds() < options.window_s);
    sampler.finish(window);
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
    joules += window.total;
    repetitions += window.repetitions;
  }
  reading.seconds_per_repetition = seconds / repetitions;
  reading.joules_per_repetition = joules / repetitions;
  reading.watts = joules / seconds;
  return reading;
}

}  // namespace fp4::cost
