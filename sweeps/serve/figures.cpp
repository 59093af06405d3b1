// What a run of a service is judged by; see service.h.
#include <algorithm>
#include <cmath>

#include "sweeps/serve/service.h"

namespace fp4::serve {

// The value below which a share q lies, the nearest rank.
static double percentile_ms(const std::vector<Nanoseconds>& sorted, double q) {
  const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(q * static_cast<double>(sorted.size()))));
  return static_cast<double>(sorted[rank - 1]) / 1e6;
}

Figures figures_of(const Served& served, const std::vector<Request>& requests, const std::vector<Target>& targets,
                   size_t window, double tolerance) {
  const size_t n = requests.size();
  std::vector<Nanoseconds> waits;
  std::vector<bool> in_time(n), accurate(n);
  std::vector<std::vector<size_t>> of_target(targets.size());
  Figures f;
  for (size_t i = 0; i < n; ++i) {
    waits.push_back(served.answers[i].at - requests[i].at);
    in_time[i] = waits[i] <= targets[requests[i].target].latency;
    of_target[requests[i].target].push_back(i);
    f.accuracy += served.answers[i].is_right;
    f.members += served.answers[i].members;
  }
  for (size_t t = 0; t < targets.size(); ++t) {
    const std::vector<size_t>& list = of_target[t];
    for (size_t first = 0; first < list.size();) {
      const size_t last = list.size() - first < 2 * window ? list.size() : first + window;
      double right = 0;
      for (size_t i = first; i < last; ++i) right += served.answers[list[i]].is_right;
      const bool is_met = right >= (targets[t].accuracy - tolerance) * static_cast<double>(last - first);
      for (; first < last; ++first) accurate[list[first]] = is_met;
    }
  }
  const auto all = static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) {
    f.met_latency += in_time[i];
    f.met_accuracy += accurate[i];
    f.met_both += in_time[i] && accurate[i];
  }
  for (double* share : {&f.accuracy, &f.members, &f.met_latency, &f.met_accuracy, &f.met_both}) *share /= all;
  std::sort(waits.begin(), waits.end());
  f.p50_ms = percentile_ms(waits, 0.5), f.p95_ms = percentile_ms(waits, 0.95), f.p99_ms = percentile_ms(waits, 0.99);
  f.cost_per_million = served.cost / all * 1e6;
  f.lost = static_cast<double>(served.lost);
  return f;
}

}  // namespace fp4::serve
