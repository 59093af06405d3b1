// Counts are powers of two, and the tokens of one optimizer step stay the same whatever the count: more accelerators
// mean fewer micro-batches each, so a shorter backward pass to hide communication behind, and stalls appear by
// themselves.
#include "sweeps/cost/recommend.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/text/error.h"

namespace fp4::cost {

namespace {

bool better(const Recommendation& a, const Recommendation& b) {
  if (a.in_time != b.in_time) return a.in_time;
  if (a.tokens_x.has_value() != b.tokens_x.has_value()) return a.tokens_x.has_value();
  return a.in_time ? a.price < b.price : a.hours < b.hours;
}

Recommendation try_count(const Model& model, const Hardware& chip, const RecipeFacts& recipe,
                         const RecommendOptions& options, int devices) {
  CostOptions cost = options.cost;
  cost.devices = devices;
  cost.formulas = false;
  const int replicas = devices / cost.parallel.replica();
  const CostResult result = evaluate(recipe, spread(model, options.global_tokens, replicas), chip, cost);
  std::optional<double> tokens_x = options.tokens_x.empty() ? std::optional(1.0) : std::nullopt;
  if (const auto known = options.tokens_x.find(recipe.name); known != options.tokens_x.end()) tokens_x = known->second;
  const double steps = std::ceil(options.tokens * tokens_x.value_or(1) / options.global_tokens);
  Recommendation row{chip.name, recipe.name, devices, steps * result.step_time_s / 3600, result.step_time_s};
  row.tokens_x = tokens_x;
  row.price = *result.price * steps;
  if (result.energy_j) row.energy_kwh = *result.energy_j * steps / 3.6e6;
  row.interconnect_stall = result.communication.interconnect_stall;
  row.network_stall = result.communication.network_stall;
  row.memory_bytes = result.memory.total();
  row.native_fp4 = has_fp4(chip);
  row.decoded = result.decoded;
  row.limit = result.limits.front().first;
  row.limit_share = result.limits.front().second;
  row.in_time = row.hours <= options.hours && result.memory.fits;
  return row;
}

}  // namespace

Model spread(const Model& model, double global_tokens, int devices) {
  Model out = model;
  out.tokens_per_step = static_cast<int64_t>(global_tokens) / devices;
  if (out.tokens_per_step < 1) throw Error("--global-tokens: fewer tokens a step than accelerators");
  const int64_t micro = std::min(out.tokens_per_step, model.micro_tokens());
  out.micro_batches = (out.tokens_per_step + micro - 1) / micro;
  while (out.tokens_per_step % out.micro_batches != 0) ++out.micro_batches;
  return out;
}

std::vector<Recommendation> recommend(const Model& model, const std::vector<Hardware>& chips,
                                      const std::vector<RecipeFacts>& recipes, const RecommendOptions& options) {
  std::vector<Recommendation> rows;
  const int replica = options.cost.parallel.replica();
  // A replica works on whole sequences.
  const int64_t sequence = std::max<int64_t>(1, model.sequence);
  bool has_count = false;
  for (const Hardware& chip : chips) {
    if (!chip.price_per_hour)
      throw Error("cost recommend: " + chip.name + " has no price; its profile needs price_per_hour");
    for (const RecipeFacts& recipe : recipes) {
      std::optional<Recommendation> best;
      const int least = chip.rented_whole ? std::lcm(replica, chip.node_size) : replica;
      for (int devices = least; devices <= options.max_devices; devices *= 2) {
        const double replicas = devices / replica;
        if (options.global_tokens / replicas < static_cast<double>(sequence)) break;
        has_count = true;
        const Recommendation row = try_count(model, chip, recipe, options, devices);
        const bool fits = row.memory_bytes <= chip.memory_bytes.value;
        if (fits && (!best || better(row, *best))) best = row;
      }
      if (!best) continue;
      CostOptions cost = options.cost;
      cost.devices = best->devices;
      const Model shared = spread(model, options.global_tokens, best->devices / replica);
      best->doubt = cost_doubts({recipe}, shared, chip, cost).front().step;
      rows.push_back(*best);
    }
  }
  if (!has_count && !chips.empty() && !recipes.empty())
    throw Error(
        fmt::format("cost recommend: no number of accelerators to try: each of their replicas has {} (--tensor x "
                    "--pipeline) and works on {} tokens or more; found --max-devices {}, --global-tokens {:g}",
                    replica, sequence, options.max_devices, options.global_tokens));
  std::stable_sort(rows.begin(), rows.end(), better);
  return rows;
}

}  // namespace fp4::cost
