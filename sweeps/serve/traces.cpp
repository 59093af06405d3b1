#include "sweeps/serve/traces.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <sstream>

#include "fp4/elementary.h"
#include "fp4/rng.h"
#include "src/text/byte_source.h"
#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4::serve {

namespace {

// Draws of a trace: positions are numbers of candidates, requests or instances.
enum Draw : uint32_t { gap, keep, target_draw, example_draw, lifetime };

double uniform(uint64_t seed, Draw draw, uint64_t position) {
  return static_cast<double>(random_uniform({seed, stream_number(draw, 0, 0, Purpose::data), 0}, position));
}

// Standard exponential: -ln(1 - u), u in [0, 1) with 24 bits.
double exponential(uint64_t seed, Draw draw, uint64_t position) {
  return -static_cast<double>(elementary::log(1.0f - static_cast<float>(uniform(seed, draw, position))));
}

uint32_t drawn_target(const std::vector<Target>& targets, double u) {
  double total = 0;
  for (const Target& target : targets) total += target.share;
  double sum = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    sum += targets[i].share / total;
    if (u < sum) return static_cast<uint32_t>(i);
  }
  return static_cast<uint32_t>(targets.size() - 1);
}

double largest_rate(const TraceSettings& s) {
  switch (s.kind) {
    case Arrivals::diurnal: return s.rate * (1 + s.depth);
    case Arrivals::bursts: return s.rate * s.factor;
    default: return s.rate;
  }
}

// Cells of one line.
std::vector<std::string> cells_of(std::string line) {
  if (line.ends_with('\r')) line.pop_back();
  std::erase(line, ' ');
  return split(line, ',');
}

double number_in(const std::string& cell, const std::string& place, double high) {
  const auto value = real_from_text(cell);
  if (!value || !(*value >= 0 && *value <= high))
    throw Error(place + ": expected a number from 0 to " + std::to_string(static_cast<int64_t>(high)) + ", found '" +
                cell + "'");
  return *value;
}

struct Arrival {
  Nanoseconds at;
  std::optional<uint32_t> target;
};

std::vector<Arrival> read_arrivals(const std::string& path, size_t targets) {
  std::istringstream file(read_file(path));
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> head = cells_of(line);
  const auto column = [&](const char* name) {
    return static_cast<size_t>(std::find(head.begin(), head.end(), name) - head.begin());
  };
  const size_t time = column("arrival_s"), target = column("target");
  if (time == head.size()) throw Error(path + ": line 1: no column arrival_s; accepted: arrival_s, target");
  std::vector<Arrival> arrivals;
  for (int number = 2; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const std::string place = path + ": line " + std::to_string(number);
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() != head.size())
      throw Error(place + ": " + std::to_string(cells.size()) + " cells where line 1 has " +
                  std::to_string(head.size()));
    Arrival arrival{static_cast<Nanoseconds>(std::llround(number_in(cells[time], place, 1e9) * second)), {}};
    if (target < head.size())
      arrival.target = static_cast<uint32_t>(number_in(cells[target], place, static_cast<double>(targets - 1)));
    if (!arrivals.empty() && arrival.at < arrivals.back().at)
      throw Error(place + ": arrives before the line above; arrivals stand in order");
    arrivals.push_back(arrival);
  }
  if (arrivals.empty()) throw Error(path + ": no arrival");
  return arrivals;
}

std::vector<Arrival> drawn_arrivals(const TraceSettings& settings, uint64_t seed) {
  const double largest = largest_rate(settings);
  std::vector<Arrival> arrivals;
  double t = 0;
  for (uint64_t i = 0;; ++i) {
    t += exponential(seed, gap, i) / largest;
    if (t >= settings.seconds) return arrivals;
    if (uniform(seed, keep, i) * largest < rate_at(settings, t))
      arrivals.push_back({static_cast<Nanoseconds>(t * second), {}});
  }
}

}  // namespace

double rate_at(const TraceSettings& s, double t) {
  const double phase = std::fmod(t, s.period);
  switch (s.kind) {
    case Arrivals::diurnal: {
      const auto angle = static_cast<float>(2 * std::numbers::pi * phase / s.period);
      return s.rate * (1 + s.depth * static_cast<double>(elementary::sin(angle)));
    }
    case Arrivals::bursts: return phase < s.length ? s.rate * s.factor : s.rate;
    default: return s.rate;
  }
}

double mean_rate(const TraceSettings& settings, const std::vector<Request>& requests) {
  const double seconds =
      settings.kind != Arrivals::csv ? settings.seconds : static_cast<double>(requests.back().at) / second;
  return static_cast<double>(requests.size()) / std::max(seconds, 1 / second);
}

std::vector<Request> draw_requests(const TraceSettings& settings, const std::vector<Target>& targets, uint32_t first,
                                   uint32_t last, uint64_t seed) {
  const std::vector<Arrival> arrivals =
      settings.kind == Arrivals::csv ? read_arrivals(settings.file, targets.size()) : drawn_arrivals(settings, seed);
  std::vector<Request> requests;
  requests.reserve(arrivals.size());
  for (uint64_t i = 0; i < arrivals.size(); ++i) {
    const uint32_t target =
        arrivals[i].target ? *arrivals[i].target : drawn_target(targets, uniform(seed, target_draw, i));
    const auto example = static_cast<uint32_t>(uniform(seed, example_draw, i) * (last - first));
    requests.push_back({arrivals[i].at, target, first + example});
  }
  return requests;
}

Nanoseconds drawn_lifetime(double per_hour, uint64_t number, uint64_t seed) {
  if (per_hour <= 0) return never;
  return static_cast<Nanoseconds>(exponential(seed, lifetime, number) * 3600 / per_hour * second);
}

}  // namespace fp4::serve
