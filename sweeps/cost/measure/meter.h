// Decides: how energy is MEASURED, after MLPerf Power's procedure: the window is marked by the workload itself, looped
// until it lasts long enough (60 s), five windows, best and worst dropped, idle power not subtracted. Sensors: RAPL of
// the CPU packages, the GPUs of amdgpu and the meter of the whole machine (ACPI) through sysfs, NVIDIA's GPUs through
// libnvidia-ml, opened at run time. A machine without any is normal: the answer is then "unavailable" with the reason,
// never an estimate in its place.
// And the profile of this machine: not a chip that runs FP4 but the simulator on a CPU: its "rates" are those at
// which products of each format are simulated, so that the toy models have a machine on which their step times mean
// something. Everything here is measured; nothing of it enters a digest.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sweeps/cost/hardware.h"

namespace fp4::cost {

/// A source of joules. Counters are read at both ends; power sensors are sampled and summed P_i * dt_i in between.
class EnergySensor {
 public:
  virtual ~EnergySensor() = default;
  virtual std::string name() const = 0;
  virtual void start() = 0;
  virtual void sample(double seconds_since_last) = 0;
  virtual double joules() = 0;                          // from start to the last sample
  virtual bool whole_machine() const { return false; }  // what the other sensors see is part of it
};

struct SensorSearch {
  std::vector<std::unique_ptr<EnergySensor>> sensors;
  std::vector<std::string> unavailable;  // "rapl: /sys/class/powercap has no intel-rapl package", ...
};

/// `root` stands for / (a test gives a folder of its own).
SensorSearch find_sensors(const std::filesystem::path& root = "/");

struct MeterOptions {
  double window_s = 60;  // at least; the work is repeated to fill it
  int runs = 5;          // windows; with three or more the best and the worst are dropped
  double sample_s = 0.1;
};

struct EnergySample {
  double seconds = 0, joules = 0;  // since the window's start; joules as in EnergyWindow::total
};

struct EnergyWindow {
  double seconds = 0;
  int repetitions = 0;
  std::vector<double> joules;       // by sensor
  double total = 0;                 // of the sensors of the whole machine where there are any, else of all
  std::vector<EnergySample> trace;  // in order; the last one is the end of the window
};

struct EnergyReading {
  std::vector<std::string> sensors;
  std::vector<EnergyWindow> windows;  // all of them, in order
  double seconds_per_repetition = 0;  // of the kept windows
  double joules_per_repetition = 0;   // EnergyWindow::total
  double watts = 0;
};

/// Runs `work` as often as the procedure asks; throws Error (exit code 1) when there is no sensor.
EnergyReading measure_energy(const std::function<void()>& work, SensorSearch search, const MeterOptions& options);

/// Of the profile of this machine.
struct CalibrateOptions {
  double seconds = 0.5;  // spent on each figure
  int64_t size = 512;    // of the square products
  int threads = 1;
  std::string backend = "auto";
};

Hardware calibrate_host(const CalibrateOptions& options);

/// The CPU's own name, or "unknown CPU".
std::string cpu_name();

}  // namespace fp4::cost
