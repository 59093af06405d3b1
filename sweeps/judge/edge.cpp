#include "sweeps/judge/edge.h"

#include <algorithm>
#include <cmath>

#include "src/text/error.h"
#include "sweeps/judge/statistics.h"

namespace fp4::sweeps {

namespace {

class Search {
 public:
  Search(const EdgeRules& rules, const std::map<int, RungCount>& counts) : rules_(rules), counts_(counts) {}

  Edge run() {
    if (enclose() && halve()) seek_ends();
    return edge_;
  }

 private:
  // Whether the rung was run; if not, it is asked for.
  bool known(int rung) {
    const auto at = counts_.find(rung);
    if (at != counts_.end() && is_decided(rules_, at->second)) return true;
    edge_.wanted = rung;
    return false;
  }
  bool passes(int rung) const {
    const RungCount& count = counts_.at(rung);
    const auto runs = static_cast<double>(count.stable + count.failed);
    return static_cast<double>(count.stable) >= rules_.share * runs;
  }
  Interval share(int rung) const {
    const RungCount& count = counts_.at(rung);
    return clopper_pearson(count.stable, count.stable + count.failed, rules_.alpha);
  }
  bool surely_stable(int rung) const { return share(rung).low > rules_.share; }
  bool surely_unstable(int rung) const { return share(rung).high < rules_.share; }

  // A rung that passes and, above it, one that fails.
  bool enclose() {
    if (!known(0)) return false;
    const int direction = passes(0) ? 1 : -1;
    int last = 0;
    for (int step = 1;; step *= 2) {
      const int next = direction * std::min(std::abs(last) + step, rules_.widest);
      if (!known(next)) return false;
      if (passes(next) != passes(0)) {
        pass_ = std::min(last, next);
        fail_ = std::max(last, next);
        return true;
      }
      last = next;
      if (std::abs(last) < rules_.widest) continue;
      edge_.is_above = direction > 0;
      return false;
    }
  }

  bool halve() {
    while (fail_ - pass_ > 1) {
      const int middle = pass_ + (fail_ - pass_) / 2;
      if (!known(middle)) return false;
      (passes(middle) ? pass_ : fail_) = middle;
    }
    edge_.rung = pass_;
    return true;
  }

  // From the edge outwards until the first sure rung on either side.
  void seek_ends() {
    const bool can_show = clopper_pearson(rules_.seeds, rules_.seeds, rules_.alpha).low > rules_.share;
    for (int rung = pass_; can_show && rung >= pass_ - rules_.beside; --rung) {
      if (!known(rung)) return;
      if (surely_stable(rung)) break;
    }
    for (int rung = fail_; rung <= fail_ + rules_.beside; ++rung) {
      if (!known(rung)) return;
      if (surely_unstable(rung)) break;
    }
    for (auto at = counts_.begin(); at != counts_.end() && surely_stable(at->first); ++at) edge_.low = at->first;
    for (auto at = counts_.rbegin(); at != counts_.rend() && surely_unstable(at->first); ++at) edge_.high = at->first;
  }

  const EdgeRules& rules_;
  const std::map<int, RungCount>& counts_;
  int pass_ = 0;
  int fail_ = 0;
  Edge edge_;
};

}  // namespace

bool is_stable(const RunRecord& run) {
  if (run.status != Status::finished || !run.loss) return false;
  const std::optional<double> trivial = measured(run, "trivial_loss");
  return !trivial || *run.loss <= (1 - least_learned) * *trivial;
}

size_t deciding_failures(const EdgeRules& rules) {
  size_t failures = 0;
  while (failures <= rules.seeds &&
         clopper_pearson(rules.seeds - failures, rules.seeds, rules.alpha).high >= rules.share)
    ++failures;
  return failures;
}

bool is_decided(const EdgeRules& rules, const RungCount& count) {
  return count.stable + count.failed >= rules.seeds || count.failed >= deciding_failures(rules);
}

Edge find_edge(const EdgeRules& rules, const std::map<int, RungCount>& counts) {
  if (!(rules.share > 0 && rules.share < 1)) throw Error("edge: share: expected a number above 0 and below 1");
  if (rules.seeds < 1 || rules.widest < 1) throw Error("edge: seeds: expected at least one");
  return Search(rules, counts).run();
}

EdgeRatio edge_ratio(const EdgeRules& rules, const Edge& edge, const Edge& reference) {
  const auto power = [&](std::optional<int> a, std::optional<int> b) -> std::optional<double> {
    if (!a || !b) return std::nullopt;
    return std::pow(rules.ladder.factor, *a - *b);
  };
  return {.ratio = power(edge.rung, reference.rung),
          .low = power(edge.low, reference.high),
          .high = power(edge.high, reference.low)};
}

}  // namespace fp4::sweeps
