#include "sweeps/serve/member_pool.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace fp4::serve {

std::vector<size_t> Pool::ranked() const {
  std::vector<size_t> order(members.size());
  for (size_t i = 0; i < members.size(); ++i) order[members[i].rank] = i;
  return order;
}

void learn(Pool& pool) {
  int32_t classes = 1 + *std::max_element(pool.labels.begin(), pool.labels.end());
  for (const Member& m : pool.members)
    classes = std::max(classes, 1 + *std::max_element(m.answers.begin(), m.answers.end()));
  for (Member& m : pool.members) {
    std::vector<double> named(static_cast<size_t>(classes)), right(static_cast<size_t>(classes));
    for (size_t i = 0; i < pool.calibration; ++i) {
      const auto c = static_cast<size_t>(m.answers[i]);
      named[c] += 1;
      right[c] += m.answers[i] == pool.labels[i] ? 1 : 0;
    }
    m.accuracy = std::accumulate(right.begin(), right.end(), 0.0) / static_cast<double>(pool.calibration);
    m.class_weight.resize(named.size());
    for (size_t c = 0; c < named.size(); ++c) m.class_weight[c] = (right[c] + 1) / (named[c] + 2);
    m.cost = m.price_per_hour / 3600 * m.seconds_a_request();
  }
  std::vector<size_t> order(pool.members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Member &x = pool.members[a], &y = pool.members[b];
    return std::tuple(-x.accuracy, x.cost, a) < std::tuple(-y.accuracy, y.cost, b);
  });
  for (size_t i = 0; i < order.size(); ++i) pool.members[order[i]].rank = i;
}

int32_t vote(std::span<const Ballot> ballots) {
  double best = -1;
  int32_t answer = 0;
  for (size_t i = 0; i < ballots.size(); ++i) {
    double sum = 0;
    for (const Ballot& other : ballots) sum += other.answer == ballots[i].answer ? other.weight : 0;
    if (sum > best) best = sum, answer = ballots[i].answer;
  }
  return answer;
}

int32_t answer_of(const Pool& pool, std::span<const size_t> members, bool is_weighted, size_t example) {
  std::vector<Ballot> ballots;
  ballots.reserve(members.size());
  for (const size_t m : members) {
    const int32_t answer = pool.members[m].answers[example];
    ballots.push_back({answer, is_weighted ? pool.members[m].class_weight[static_cast<size_t>(answer)] : 1});
  }
  return vote(ballots);
}

double share_right(const Pool& pool, std::span<const size_t> members, bool is_weighted, size_t first, size_t last) {
  size_t right = 0;
  for (size_t i = first; i < last; ++i) right += answer_of(pool, members, is_weighted, i) == pool.labels[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(last - first);
}

std::vector<VoteRow> votes_of(const Pool& pool) {
  const auto share = [&](const std::vector<size_t>& members, bool is_weighted) {
    return share_right(pool, members, is_weighted, pool.calibration, pool.labels.size());
  };
  std::vector<std::string> groups;
  for (const Member& m : pool.members)
    if (std::find(groups.begin(), groups.end(), m.group) == groups.end()) groups.push_back(m.group);
  std::vector<VoteRow> rows;
  for (const std::string& group : groups) {
    std::vector<size_t> members;  // by rank
    VoteRow row{.group = group};
    double sum = 0;
    for (size_t i = 0; i < pool.members.size(); ++i) {
      if (pool.members[i].group != group) continue;
      members.push_back(i);
      std::sort(members.begin(), members.end(),
                [&](size_t a, size_t b) { return pool.members[a].rank < pool.members[b].rank; });
      sum += share({i}, false);
      row.members = members.size();
      row.mean = sum / static_cast<double>(members.size());
      row.majority = share(members, false);
      row.weighted = share(members, true);
      row.cost += pool.members[i].cost;
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace fp4::serve
