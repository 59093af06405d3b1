// Figures of this machine. Products run through the same dispatcher and kernels as training does; loops for bandwidth
// and issue rate are what the compiler makes of plain C++ for the generic CPU, as the program's own unspecialised code
// is.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "fp4/presets.h"
#include "sim/kernels/train_kernels.h"
#include "src/backends/backends.h"
#include "sweeps/cost/measure/meter.h"

namespace fp4::cost {

namespace {

using Clock = std::chrono::steady_clock;

// Best of as many repetitions as fit: the machine may be shared, and a rate is a ceiling.
template <class Work>
double best_seconds(double budget, const Work& work) {
  double best = 1e300, spent = 0;
  while (spent < budget) {
    const Clock::time_point start = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

Quantity measured(double value, const std::string& how) { return {value, "measured", how}; }

Quantity matrix_rate(const char* preset, const CalibrateOptions& options) {
  const int64_t n = options.size;
  std::vector<float> a(static_cast<size_t>(n * n)), c(a.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 7919 % 2001) - 1000) * 1e-3f;
  const Dispatcher dispatcher(options.backend);
  const QuantSpec spec = find_preset(preset)->spec;
  MultiplyCall call;
  call.a.x = call.b.x = view_of(a.data(), n, n);
  call.a.spec = call.b.spec = spec;
  call.a.threads = call.b.threads = call.options.threads = options.threads;
  call.c = c.data();
  call.c_stride = n;
  const double seconds = best_seconds(options.seconds, [&] { dispatcher.multiply(call); });
  const double size = static_cast<double>(n);
  return measured(2 * size * size * size / seconds,
                  fmt::format("simulated product of {0} x {0} {1} operands, their quantisation included", n, preset));
}

// What the trainer multiplies unquantised layers with (sim/kernels/train_kernels.h): bf16 and fp32 operands alike.
Quantity plain_rate(const CalibrateOptions& options) {
  const sim::Kernels& kernels = sim::kernels();
  const int n = static_cast<int>(options.size), panel = kernels.panel_width;
  const size_t columns = static_cast<size_t>((n + panel - 1) / panel * panel);
  std::vector<float> a(static_cast<size_t>(n) * static_cast<size_t>(n), 0.5f), c(a.size());
  std::vector<float> packed(columns * static_cast<size_t>(n));
  const double seconds = best_seconds(options.seconds, [&] {
    kernels.pack(packed.data(), a.data(), n, 1, n, n);
    kernels.gemm(c.data(), n, a.data(), n, 1, packed.data(), n, n, n);
  });
  const double size = static_cast<double>(n);
  return measured(2 * size * size * size / seconds,
                  fmt::format("fp32 product of {0} x {0}, the trainer's kernel ({1}), one thread", n, kernels.name));
}

// Read, multiply and write arrays far beyond the caches.
Quantity bandwidth(double budget) {
  std::vector<float> x(size_t{1} << 25, 1.0f), y(x.size());
  const double seconds = best_seconds(budget, [&] {
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * 1.5f;
  });
  return measured(static_cast<double>(x.size()) * 8 / seconds, "y = 1.5 x over 128 MB, one thread, read + written");
}

// Independent additions on a block that stays in the first cache: slots as the compiler's generic code uses them.
Quantity issue_rate(double budget) {
  std::vector<float> x(4096, 1.0f);
  constexpr int passes = 256;
  const double seconds = best_seconds(budget, [&] {
    for (int pass = 0; pass < passes; ++pass)
      for (float& value : x) value = value * 0.5f + 0.5f;
  });
  return measured(static_cast<double>(x.size()) * passes * 2 / seconds, "x = x/2 + 1/2 over 16 KB, one thread");
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown CPU";
}

Hardware calibrate_host(const CalibrateOptions& options) {
  Hardware host;
  host.name = "host";
  host.doc = fmt::format("the simulator on {}, {} thread(s), measured by `fp4sim cost calibrate`", cpu_name(),
                         options.threads);
  host.source = "measured on the machine it names";
  const struct {
    const char* format_class;
    const char* preset;
  } formats[] = {{"fp8", "mxfp8"}, {"fp6", "mxfp6"}, {"fp4", "mxfp4"}};
  host.rates["fp32"] = host.rates["bf16"] = plain_rate(options);
  host.other_s_per_token = {0, "estimate", "not measured: products and quantisers are timed"};
  for (const auto& row : formats) host.rates[row.format_class] = matrix_rate(row.preset, options);
  host.emulate = {{"int8", "fp8"}, {"int4", "fp4"}};
  host.efficiency = measured(1, "rates are what products reach");
  host.issue_per_s = issue_rate(options.seconds);
  host.issue_efficiency = measured(1, "issue_per_s is what a loop reaches");
  host.memory_bandwidth = bandwidth(options.seconds);
  host.memory_bytes = measured(
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)), "physical memory");
  host.quantiser_bandwidth = measured(1, "memory_bandwidth is what a loop reaches");
  host.node_source = "one machine", host.has_node = true;
  host.random_kind = "stated";
  host.random_source = "the simulator draws from Philox";
  return host;
}

}  // namespace fp4::cost
