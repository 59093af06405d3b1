#include "sweeps/serve/service.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>
#include <tuple>

namespace fp4::serve {

namespace {

enum class Kind : uint8_t { batch_done, lost, started, arrival, tick };

struct Event {
  Nanoseconds at = 0;
  Kind kind = Kind::tick;
  uint64_t order = 0;
  size_t subject = 0;  // instance or request
  bool operator>(const Event& other) const {
    return std::tie(at, kind, order) > std::tie(other.at, other.kind, other.order);
  }
};

struct Instance {
  enum class State : uint8_t { starting, idle, busy, gone } state = State::starting;
  size_t member = 0;
  Nanoseconds launched = 0;
  std::vector<size_t> batch;  // requests
};

struct Queue {
  std::deque<size_t> waiting;     // requests
  std::vector<size_t> instances;  // that are not gone, in the order of their launch
  size_t asked = 0;               // in this tick
  size_t wanted = 0;              // instances
};

class Service {
 public:
  Service(const PolicyRow& policy, const Pool& pool, const std::vector<Target>& targets,
          const std::vector<Request>& requests, const ServiceRules& rules)
      : policy_(policy),
        pool_(pool),
        targets_(targets),
        requests_(requests),
        rules_(rules),
        chooser_(policy, pool, targets, rules.policy),
        forecast_(rules.mean_rate),
        queues_(pool.members.size()),
        in_tick_(targets.size()),
        chosen_(requests.size()),
        missing_(requests.size()) {
    served_.answers.resize(requests.size());
  }

  Served run() {
    double shares = 0;
    for (const Target& target : targets_) shares += target.share;
    std::vector<double> weights;
    for (const Target& target : targets_) weights.push_back(target.share / shares);
    want(use_of(weights), rules_.mean_rate, Nanoseconds{0});
    add(requests_.front().at, Kind::arrival, 0);
    add(rules_.tick, Kind::tick, 0);
    while (answered_ < requests_.size()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      handle(event);
    }
    served_.end = now_;
    for (size_t i = 0; i < instances_.size(); ++i)
      if (instances_[i].state != Instance::State::gone) end(i);
    return std::move(served_);
  }

 private:
  void add(Nanoseconds at, Kind kind, size_t subject) { events_.push({at, kind, order_++, subject}); }

  void handle(const Event& event) {
    switch (event.kind) {
      case Kind::batch_done:
        if (instances_[event.subject].state == Instance::State::busy) batch_done(event.subject);
        break;
      case Kind::lost:
        if (instances_[event.subject].state != Instance::State::gone) lost(event.subject);
        break;
      case Kind::started:
        if (instances_[event.subject].state == Instance::State::starting) {
          instances_[event.subject].state = Instance::State::idle;
          work(instances_[event.subject].member);
        }
        break;
      case Kind::arrival: arrive(event.subject); break;
      case Kind::tick: tick();
    }
  }

  void arrive(size_t request) {
    chosen_[request] = chooser_.members(requests_[request].target);
    missing_[request] = chosen_[request].size();
    ++in_tick_[requests_[request].target];
    for (const size_t m : chosen_[request]) {
      ++queues_[m].asked;
      queues_[m].waiting.push_back(request);
      if (queues_[m].instances.empty()) launch(m, rules_.start_up);
      work(m);
    }
    if (request + 1 < requests_.size()) add(requests_[request + 1].at, Kind::arrival, request + 1);
  }

  // Free instances of a member take what waits.
  void work(size_t member) {
    Queue& queue = queues_[member];
    for (const size_t i : queue.instances) {
      Instance& instance = instances_[i];
      if (queue.waiting.empty()) return;
      if (instance.state != Instance::State::idle) continue;
      const size_t n = std::min(queue.waiting.size(), pool_.members[member].batch.size());
      instance.batch.assign(queue.waiting.begin(), queue.waiting.begin() + static_cast<std::ptrdiff_t>(n));
      queue.waiting.erase(queue.waiting.begin(), queue.waiting.begin() + static_cast<std::ptrdiff_t>(n));
      instance.state = Instance::State::busy;
      ++served_.batches;
      add(now_ + pool_.members[member].of_batch(n), Kind::batch_done, i);
    }
  }

  void batch_done(size_t number) {
    Instance& instance = instances_[number];
    for (const size_t request : instance.batch)
      if (--missing_[request] == 0) answer(request);
    instance.batch.clear();
    instance.state = Instance::State::idle;
    work(instance.member);
  }

  void answer(size_t request) {
    const Request& asked = requests_[request];
    Answered& given = served_.answers[request];
    given.at = now_;
    given.members = static_cast<uint32_t>(chosen_[request].size());
    given.answer = answer_of(pool_, chosen_[request], policy_.is_weighted, asked.example);
    given.is_right = given.answer == pool_.labels[asked.example];
    chooser_.heard(asked.target, given.is_right);
    ++answered_;
  }

  void lost(size_t number) {
    const size_t member = instances_[number].member;
    std::vector<size_t> batch = std::move(instances_[number].batch);
    end(number);
    ++served_.lost;
    served_.repeated += batch.size();
    Queue& queue = queues_[member];
    queue.waiting.insert(queue.waiting.begin(), batch.begin(), batch.end());
    if (queue.instances.size() < queue.wanted || (queue.instances.empty() && !queue.waiting.empty()))
      launch(member, rules_.start_up);
    work(member);
  }

  // Share of the requests that ask each member, for shares of the targets.
  std::vector<double> use_of(const std::vector<double>& shares) const {
    std::vector<double> use(pool_.members.size());
    for (size_t t = 0; t < targets_.size(); ++t)
      for (const size_t m : chooser_.members(t)) use[m] += shares[t];
    return use;
  }

  void tick() {
    const double seconds = static_cast<double>(rules_.tick) / second;
    double all = 0;
    for (const size_t n : in_tick_) all += static_cast<double>(n);
    forecast_.add(all / seconds);
    chooser_.tick();
    if (policy_.scaling == Scaling::measured) {
      std::vector<double> rates;
      for (const Queue& queue : queues_) rates.push_back(static_cast<double>(queue.asked) / seconds);
      want(rates, 1, rules_.start_up);
    } else if (all > 0) {
      std::vector<double> shares;
      for (const size_t n : in_tick_) shares.push_back(static_cast<double>(n) / all);
      const double ticks = 1 + static_cast<double>(rules_.start_up) / static_cast<double>(rules_.tick);
      want(use_of(shares), forecast_.ahead(ticks), rules_.start_up);
    }
    for (Queue& queue : queues_) queue.asked = 0;
    std::fill(in_tick_.begin(), in_tick_.end(), 0);
    add(now_ + rules_.tick, Kind::tick, 0);
  }

  // Launches and stops instances until each member has those for its share of `rate`. Busy ones are never stopped, and
  // a member for whom requests wait keeps one.
  void want(const std::vector<double>& use, double rate, Nanoseconds start_up) {
    for (size_t m = 0; m < queues_.size(); ++m) {
      double share = use[m];
      if (policy_.scaling == Scaling::predicted_whole && share > 0) share = 1;
      Queue& queue = queues_[m];
      queue.wanted = instances_for(pool_.members[m], share * rate, rules_.utilisation);
      if (!queue.waiting.empty()) queue.wanted = std::max(queue.wanted, size_t{1});
      while (queue.instances.size() < queue.wanted) launch(m, start_up);
      for (const auto state : {Instance::State::starting, Instance::State::idle}) {
        const std::vector<size_t> now = queue.instances;
        for (size_t i = now.size(); i-- > 0 && queue.instances.size() > queue.wanted;)
          if (instances_[now[i]].state == state) end(now[i]);
      }
    }
  }

  void launch(size_t member, Nanoseconds start_up) {
    const size_t number = instances_.size();
    instances_.push_back({.state = Instance::State::starting, .member = member, .launched = now_, .batch = {}});
    queues_[member].instances.push_back(number);
    ++served_.launched;
    if (start_up == 0)
      instances_.back().state = Instance::State::idle;
    else
      add(now_ + start_up, Kind::started, number);
    if (!policy_.is_transient || !rules_.lifetime) return;
    if (const Nanoseconds life = rules_.lifetime(number); life != never) add(now_ + life, Kind::lost, number);
  }

  void end(size_t number) {
    Instance& instance = instances_[number];
    instance.state = Instance::State::gone;
    std::erase(queues_[instance.member].instances, number);
    const double hours = static_cast<double>(now_ - instance.launched) / second / 3600;
    served_.cost +=
        hours * pool_.members[instance.member].price_per_hour * (policy_.is_transient ? rules_.transient_price : 1);
  }

  const PolicyRow& policy_;
  const Pool& pool_;
  const std::vector<Target>& targets_;
  const std::vector<Request>& requests_;
  const ServiceRules& rules_;
  Chooser chooser_;
  Forecast forecast_;
  std::vector<Queue> queues_;                // by member
  std::vector<size_t> in_tick_;              // requests by target
  std::vector<std::vector<size_t>> chosen_;  // members by request
  std::vector<size_t> missing_;              // answers by request
  std::vector<Instance> instances_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t order_ = 0;
  size_t answered_ = 0;
  Nanoseconds now_ = 0;
  Served served_;
};

}  // namespace

Served run_service(const PolicyRow& policy, const Pool& pool, const std::vector<Target>& targets,
                   const std::vector<Request>& requests, const ServiceRules& rules) {
  return Service(policy, pool, targets, requests, rules).run();
}

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
