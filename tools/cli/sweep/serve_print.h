// What `fp4sim serve` says: tables of policies, members and votes, and the JSON that --json prints and a page shows.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "sweeps/judge/statistics.h"
#include "sweeps/serve/member_pool.h"
#include "sweeps/serve/service_file.h"
#include "tools/cli/options.h"

namespace fp4::tools {

// A policy on traces of successive seeds.
struct PolicyRuns {
  const serve::PolicyRow* policy = nullptr;
  std::vector<serve::Figures> seeds;
  sweeps::Summary summary(double serve::Figures::*value) const {
    std::vector<double> values;
    for (const serve::Figures& f : seeds) values.push_back(f.*value);
    return sweeps::summarise(values);
  }
};

void print_runs(const serve::ServiceFile& file, const serve::Pool& pool, const std::vector<PolicyRuns>& runs,
                uint64_t first_seed);
nlohmann::ordered_json runs_json(const serve::ServiceFile& file, const serve::Pool& pool,
                                 const std::vector<PolicyRuns>& runs, uint64_t first_seed,
                                 const Invocation& invocation);

void print_votes(const std::vector<serve::VoteRow>& rows);
nlohmann::ordered_json votes_json(const serve::ServiceFile& file, const std::vector<serve::VoteRow>& rows,
                                  const Invocation& invocation);

}  // namespace fp4::tools
