// Decides: what happens in a service, event by event, and what it costs. Times are whole nanoseconds. Events of one
// time happen in the order of the enumeration, then in that of their making:
//   batch_done   the members' answers of a batch reach their requests
//   lost         a transient instance is gone; its batch goes back to the head of the queue, and another is started
//   started      an instance that was launched takes its first batch
//   arrival      a request joins the queue of each chosen member
//   tick         sets of members change, instances are launched and stopped
// Each member has one queue. An instance serves one member; when it is free it takes what waits there, as much as fits
// into a batch, and does not wait for more. Of free instances the first launched works. A request is answered when its
// last member has answered. Instances cost from their launch to their end, start-up included; those of time 0 are ready
// at once, as many as the trace's mean rate asks for.
#pragma once

#include <functional>
#include <vector>

#include "sweeps/serve/policies.h"

namespace fp4::serve {

struct ServiceRules {
  Nanoseconds start_up = 0;      // from the launch of an instance to its first batch
  Nanoseconds tick = 0;          // between decisions
  double utilisation = 0.7;      // of the instances that scaling asks for
  double transient_price = 0.3;  // share of the price on demand
  double mean_rate = 0;          // requests a second, known before the first one
  PolicyRules policy;
  std::function<Nanoseconds(size_t number)> lifetime;  // of the number-th transient instance; empty: never lost
};

struct Answered {
  Nanoseconds at = 0;
  int32_t answer = 0;
  bool is_right = false;
  uint32_t members = 0;
};

struct Served {
  std::vector<Answered> answers;  // by request
  double cost = 0;                // US dollars
  Nanoseconds end = 0;            // the last answer
  size_t launched = 0, lost = 0, batches = 0;
  size_t repeated = 0;  // members' answers that a loss undid
};

Served run_service(const PolicyRow& policy, const Pool& pool, const std::vector<Target>& targets,
                   const std::vector<Request>& requests, const ServiceRules& rules);

/// What a run is judged by.
struct Figures {
  double cost_per_million = 0;  // US dollars for a million requests
  double p50_ms = 0, p95_ms = 0, p99_ms = 0;
  double accuracy = 0;      // share of right answers
  double met_latency = 0;   // share of the requests
  double met_accuracy = 0;  // share of the requests whose window reached the target
  double met_both = 0;
  double members = 0;  // mean a request
  double lost = 0;     // instances
};

/// One request is right or wrong; its accuracy target is met where, of `window` successive requests of its kind, a
/// share of target - tolerance was answered rightly. The last window of a kind takes what is left over.
Figures figures_of(const Served& served, const std::vector<Request>& requests, const std::vector<Target>& targets,
                   size_t window, double tolerance);

}  // namespace fp4::serve
