#include "sweeps/serve/policies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace fp4::serve {

Chooser::Chooser(const PolicyRow& row, const Pool& pool, const std::vector<Target>& targets, const PolicyRules& rules)
    : row_(row), pool_(pool), targets_(targets), rules_(rules), heard_(targets.size()) {
  const auto highest = std::max_element(targets.begin(), targets.end(), [](const Target& a, const Target& b) {
    return std::tuple(a.accuracy, -a.latency) < std::tuple(b.accuracy, -b.latency);
  });
  for (const Target& target : targets) {
    std::vector<size_t> fitting = in_time(target);
    switch (row.choice) {
      case MemberChoice::all: break;
      case MemberChoice::most_accurate: fitting.resize(1); break;
      case MemberChoice::smallest_set: fitting = smallest(in_time(*highest), highest->accuracy); break;
      case MemberChoice::shrinking_set: fitting = smallest(fitting, target.accuracy); break;
      case MemberChoice::cheapest: {
        size_t best = fitting.front();  // where no member is accurate enough: the most accurate
        for (const size_t m : fitting)
          if (pool.members[m].accuracy >= target.accuracy && pool.members[m].cost < pool.members[best].cost) best = m;
        fitting = {best};
      }
    }
    sets_.push_back(std::move(fitting));
  }
}

std::vector<size_t> Chooser::in_time(const Target& target) const {
  std::vector<size_t> fitting;
  for (const size_t m : pool_.ranked())
    if (2 * pool_.members[m].of_batch(1) <= target.latency) fitting.push_back(m);
  if (fitting.empty()) {
    const auto fastest = std::min_element(pool_.members.begin(), pool_.members.end(),
                                          [](const auto& a, const auto& b) { return a.of_batch(1) < b.of_batch(1); });
    fitting.push_back(static_cast<size_t>(fastest - pool_.members.begin()));
  }
  return fitting;
}

// Of the members up to each price, the most accurate 1, 2, .. whose vote is accurate enough; the cheapest such set, of
// equals the smaller. All members where no set is.
std::vector<size_t> Chooser::smallest(const std::vector<size_t>& members, double accuracy) const {
  std::vector<size_t> best = members;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const size_t limit : members) {
    std::vector<size_t> set;
    double cost = 0;
    for (const size_t m : members) {
      if (pool_.members[m].cost > pool_.members[limit].cost) continue;
      set.push_back(m);
      cost += pool_.members[m].cost;
      if (std::tuple(cost, set.size()) >= std::tuple(best_cost, best.size())) break;
      if (share_right(pool_, set, row_.is_weighted, 0, pool_.calibration) < accuracy) continue;
      best = set;
      best_cost = cost;
      break;
    }
  }
  return best;
}

void Chooser::heard(size_t target, bool is_right) {
  std::deque<bool>& last = heard_[target];
  last.push_back(is_right);
  if (last.size() > rules_.window) last.pop_front();
}

void Chooser::tick() {
  if (row_.choice != MemberChoice::shrinking_set) return;
  for (size_t t = 0; t < targets_.size(); ++t) {
    std::deque<bool>& last = heard_[t];
    if (last.size() < rules_.window) continue;
    const double accuracy =
        static_cast<double>(std::count(last.begin(), last.end(), true)) / static_cast<double>(last.size());
    std::vector<size_t>& set = sets_[t];
    if (accuracy >= targets_[t].accuracy + rules_.margin && set.size() > 1) {
      set.pop_back();
    } else if (accuracy < targets_[t].accuracy) {
      const std::vector<size_t> fitting = in_time(targets_[t]);
      const auto next = std::find_if(fitting.begin(), fitting.end(),
                                     [&](size_t m) { return std::find(set.begin(), set.end(), m) == set.end(); });
      if (next == fitting.end()) continue;
      set.push_back(*next);
      std::sort(set.begin(), set.end(),
                [&](size_t a, size_t b) { return pool_.members[a].rank < pool_.members[b].rank; });
    } else {
      continue;
    }
    last.clear();
  }
}

void Forecast::add(double rate) {
  const double before = level_;
  level_ = alpha * rate + (1 - alpha) * (level_ + trend_);
  trend_ = beta * (level_ - before) + (1 - beta) * trend_;
}

double Forecast::ahead(double ticks) const { return std::max(0.0, level_ + ticks * trend_); }

size_t instances_for(const Member& member, double rate, double utilisation) {
  if (rate <= 0) return 0;
  return static_cast<size_t>(std::max(1.0, std::ceil(rate * member.seconds_a_request() / utilisation)));
}

}  // namespace fp4::serve
