#include "sweeps/serve/votes.h"

#include <algorithm>

namespace fp4::serve {

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
