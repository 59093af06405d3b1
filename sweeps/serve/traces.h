// Decides: when requests of a service arrive, what they ask about and what they demand. A pure function of settings and
// seed: the same bytes on every machine, because draws come from Philox (fp4/rng.h), logarithm and sine from
// fp4/elementary.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace fp4::serve {

using Nanoseconds = int64_t;
inline constexpr double second = 1e9;

/// What a kind of request demands. `share`: of all requests, in proportion to the other targets' shares.
struct Target {
  double accuracy = 0;
  Nanoseconds latency = 0;
  double share = 1;
};

struct Request {
  Nanoseconds at = 0;    // of its arrival
  uint32_t target = 0;   // index into the targets
  uint32_t example = 0;  // index into the validation set
};

enum class Arrivals : uint8_t { poisson, diurnal, bursts, csv };
struct ArrivalsRow {
  const char* name;
  Arrivals kind;
  const char* doc;
};
inline constexpr std::array arrivals_table = {
    ArrivalsRow{"poisson", Arrivals::poisson, "rate(t) = rate"},
    ArrivalsRow{"diurnal", Arrivals::diurnal, "rate(t) = rate * (1 + depth * sin(2 pi t / period))"},
    ArrivalsRow{"bursts", Arrivals::bursts,
                "rate(t) = rate * factor in the first `length` s of each period, else rate"},
    ArrivalsRow{"csv", Arrivals::csv, "times of a file, column arrival_s, and optionally target (0, 1, ..)"},
};

struct TraceSettings {
  Arrivals kind = Arrivals::poisson;
  double rate = 100;    // requests a second
  double seconds = 60;  // requests arrive in [0, seconds)
  double period = 60;   // s
  double depth = 0.5;   // from 0 to 1
  double length = 6;    // s
  double factor = 3;    // from 1
  std::string file;     // of csv
};

/// Requests a second at time t (s); not of csv.
double rate_at(const TraceSettings& settings, double t);
/// Requests a second in the mean over the trace: of csv the number over the last arrival.
double mean_rate(const TraceSettings& settings, const std::vector<Request>& requests);

/// The requests in the order of their arrival. A Poisson process of varying rate is one of the largest rate from which
/// each arrival is kept with chance rate(t) / largest (Lewis and Shedler 1979). Examples are drawn evenly from
/// [first, last); targets by their shares where a file does not name them. Throws Error for a file that cannot be
/// read, with line and word.
std::vector<Request> draw_requests(const TraceSettings& settings, const std::vector<Target>& targets, uint32_t first,
                                   uint32_t last, uint64_t seed);

/// Time in use of an instance that is lost with `per_hour` losses an hour (exponential), the `number`th of a run; 0
/// losses: never.
Nanoseconds drawn_lifetime(double per_hour, uint64_t number, uint64_t seed);
inline constexpr Nanoseconds never = INT64_MAX;

}  // namespace fp4::serve
