// Decides: which energy sensors exist and how each is read.
//   RAPL     <root>/sys/class/powercap/intel-rapl:N/energy_uj, microjoules, wraps at max_energy_range_uj (AMD's, too)
//   amdgpu   <root>/sys/class/drm/cardN/device/hwmon/hwmonM/power1_average (or power1_input), microwatts
//   machine  <root>/sys/class/hwmon/hwmonM/power1_average where its `name` is power_meter (ACPI 4.0), microwatts
//   NVML     libnvidia-ml.so.1: total energy in millijoules where the GPU counts it, else power in milliwatts
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "sweeps/cost/measure/meter.h"

namespace fp4::cost {

namespace {

namespace fs = std::filesystem;

// The first word of a file as a number or text.
template <class T>
std::optional<T> read_first(const fs::path& path) {
  std::error_code absent;
  if (!fs::is_regular_file(path, absent)) return std::nullopt;  // a pipe below --root would wait for ever
  std::ifstream file(path);
  T value{};
  return file >> value ? std::optional(value) : std::nullopt;
}
std::optional<double> read_number(const fs::path& path) { return read_first<double>(path); }

std::vector<fs::path> entries(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent))
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

class RaplSensor : public EnergySensor {
 public:
  explicit RaplSensor(fs::path folder) : folder_(std::move(folder)) {}
  std::string name() const override { return "rapl " + folder_.filename().string(); }
  void start() override {
    last_ = read_number(folder_ / "energy_uj").value_or(0);
    joules_ = 0;
  }
  // Read often enough that a counter wraps at most once in between (a package wraps after minutes).
  void sample(double) override {
    const double now = read_number(folder_ / "energy_uj").value_or(last_);
    const double range = read_number(folder_ / "max_energy_range_uj").value_or(0);
    joules_ += (now >= last_ ? now - last_ : now + range - last_) * 1e-6;
    last_ = now;
  }
  double joules() override { return joules_; }

 private:
  fs::path folder_;
  double last_ = 0, joules_ = 0;
};

// A file of microwatts.
class PowerSensor : public EnergySensor {
 public:
  PowerSensor(std::string name, fs::path file, bool whole)
      : name_(std::move(name)), file_(std::move(file)), whole_(whole) {}
  std::string name() const override { return name_; }
  void start() override { joules_ = 0; }
  void sample(double seconds) override { joules_ += read_number(file_).value_or(0) * 1e-6 * seconds; }
  double joules() override { return joules_; }
  bool whole_machine() const override { return whole_; }

 private:
  std::string name_;
  fs::path file_;
  bool whole_;
  double joules_ = 0;
};

// The five functions that are needed, with the types of nvml.h (a status of 0 is success).
struct Nvml {
  using Device = void*;
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*energy_mj)(Device, unsigned long long*) = nullptr;
  int (*power_mw)(Device, unsigned*) = nullptr;

  // Empty text on success. The library stays loaded until the program ends.
  std::string load() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return "libnvidia-ml.so.1 is not installed";
    bool complete = true;
    const auto bind = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      complete = complete && function != nullptr;
    };
    bind(init, "nvmlInit_v2");
    bind(count, "nvmlDeviceGetCount_v2");
    bind(device, "nvmlDeviceGetHandleByIndex_v2");
    bind(energy_mj, "nvmlDeviceGetTotalEnergyConsumption");
    bind(power_mw, "nvmlDeviceGetPowerUsage");
    if (!complete) return "libnvidia-ml.so.1 lacks a function";
    return init() == 0 ? "" : "nvmlInit failed: no driver or no device";
  }
};

class NvmlSensor : public EnergySensor {
 public:
  NvmlSensor(const Nvml& nvml, unsigned index, Nvml::Device device) : nvml_(nvml), index_(index), device_(device) {}
  std::string name() const override { return fmt::format("nvml gpu{}", index_); }
  void start() override {
    unsigned long long now = 0;
    counts_ = nvml_.energy_mj(device_, &now) == 0;
    first_ = static_cast<double>(now);
    joules_ = 0;
  }
  void sample(double seconds) override {
    unsigned power = 0;
    unsigned long long now = 0;
    if (counts_ && nvml_.energy_mj(device_, &now) == 0) joules_ = (static_cast<double>(now) - first_) * 1e-3;
    if (!counts_ && nvml_.power_mw(device_, &power) == 0) joules_ += power * 1e-3 * seconds;
  }
  double joules() override { return joules_; }

 private:
  Nvml nvml_;
  unsigned index_;
  Nvml::Device device_;
  bool counts_ = false;
  double first_ = 0, joules_ = 0;
};

void find_rapl(const fs::path& root, SensorSearch& out) {
  const fs::path folder = root / "sys/class/powercap";
  bool any = false, readable = false;
  for (const fs::path& entry : entries(folder, "intel-rapl:")) {
    const std::string name = entry.filename().string();
    if (std::count(name.begin(), name.end(), ':') != 1) continue;  // a part of a package: counted in it
    any = true;
    if (!read_number(entry / "energy_uj")) continue;  // root only since CVE-2020-8694
    readable = true;
    out.sensors.push_back(std::make_unique<RaplSensor>(entry));
  }
  if (!any) out.unavailable.push_back("rapl: " + folder.string() + " has no package");
  if (any && !readable) out.unavailable.push_back("rapl: energy_uj is readable by root only");
}

void find_amdgpu(const fs::path& root, SensorSearch& out) {
  const fs::path folder = root / "sys/class/drm";
  bool any = false;
  for (const fs::path& card : entries(folder, "card"))
    for (const fs::path& monitor : entries(card / "device/hwmon", "hwmon"))
      for (const char* file : {"power1_average", "power1_input"}) {
        if (!read_number(monitor / file)) continue;
        out.sensors.push_back(
            std::make_unique<PowerSensor>("amdgpu " + card.filename().string(), monitor / file, false));
        any = true;
        break;
      }
  if (!any) out.unavailable.push_back("amdgpu: " + folder.string() + " has no card with a power sensor");
}

void find_machine(const fs::path& root, SensorSearch& out) {
  const fs::path folder = root / "sys/class/hwmon";
  bool any = false;
  for (const fs::path& monitor : entries(folder, "hwmon")) {
    if (read_first<std::string>(monitor / "name") != "power_meter" || !read_number(monitor / "power1_average"))
      continue;
    out.sensors.push_back(
        std::make_unique<PowerSensor>("machine " + monitor.filename().string(), monitor / "power1_average", true));
    any = true;
  }
  if (!any) out.unavailable.push_back("machine: " + folder.string() + " has no power_meter");
}

void find_nvml(SensorSearch& out) {
  Nvml nvml;
  const std::string problem = nvml.load();
  unsigned count = 0;
  if (problem.empty() && nvml.count(&count) == 0)
    for (unsigned index = 0; index < count; ++index) {
      Nvml::Device device = nullptr;
      if (nvml.device(index, &device) == 0) out.sensors.push_back(std::make_unique<NvmlSensor>(nvml, index, device));
    }
  if (count == 0) out.unavailable.push_back("nvml: " + (problem.empty() ? "no device" : problem));
}

}  // namespace

SensorSearch find_sensors(const fs::path& root) {
  SensorSearch out;
  find_rapl(root, out);
  find_amdgpu(root, out);
  find_machine(root, out);
  if (root == "/") find_nvml(out);
  return out;
}

}  // namespace fp4::cost
