// Decides: what members answer together, without a service: votes of the first 1, 2, .. members of each group.
#pragma once

#include <string>
#include <vector>

#include "sweeps/serve/member_pool.h"

namespace fp4::serve {

struct VoteRow {
  std::string group;
  size_t members = 0;
  double mean = 0, majority = 0, weighted = 0;  // shares of right answers on the examples that requests ask about
  double cost = 0;                              // of a request in full batches on demand, US dollars
};

/// Groups and their members stand in the order of the pool; voters are ranked by what calibration says of them.
std::vector<VoteRow> votes_of(const Pool& pool);

}  // namespace fp4::serve
