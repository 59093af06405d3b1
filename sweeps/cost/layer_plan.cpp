#include "sweeps/cost/layer_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/error.h"

namespace fp4::cost {

namespace {

int64_t policy_layers(const LayerPolicy& policy, int64_t layers) {
  if (policy.count >= 1) return std::min(layers, static_cast<int64_t>(policy.count));
  return static_cast<int64_t>(std::floor(policy.count * static_cast<double>(layers) + 0.5));
}

void check_names(const Model& model, const LayerPolicy& policy) {
  std::set<std::string> known;
  for (const Linear& linear : model.linears) {
    known.insert(linear.name);
    for (int64_t block = 0; block < model.blocks; ++block)
      known.insert(fmt::format("blocks.{}.{}", block, linear.name));
  }
  for (const std::string& name : policy.names) {
    if (known.contains(name)) continue;
    std::vector<std::string> accepted;
    for (const Linear& linear : model.linears) accepted.push_back(linear.name);
    accepted.emplace_back("blocks.N.NAME");
    throw unknown_word(fmt::format("layers of model {}", model.name), name, accepted);
  }
}

bool named(const LayerPolicy& policy, const Linear& linear, int64_t block) {
  const auto matches = [&](const std::string& name) {
    return name == linear.name || name == fmt::format("blocks.{}.{}", block, linear.name);
  };
  return std::any_of(policy.names.begin(), policy.names.end(), matches);
}

}  // namespace

std::vector<PlannedLinear> plan_layers(const Model& model, const LayerPolicy& policy) {
  using Kind = LayerPolicy::Kind;
  std::vector<PlannedLinear> plan;
  if (policy.kind == Kind::all) {
    for (const Linear& linear : model.linears) plan.push_back({&linear, model.blocks, linear.width_out(), 0});
    return plan;
  }
  if (policy.kind == Kind::names) check_names(model, policy);
  const int64_t layers = model.layers(), skipped = policy_layers(policy, layers);
  int64_t position = 0;
  for (int64_t block = 0; block < model.blocks; ++block)
    for (const Linear& linear : model.linears) {
      PlannedLinear row{&linear, 1, 0, 0};
      for (const int64_t width : linear.out) {
        const bool quantised = policy.kind == Kind::names        ? named(policy, linear, block)
                               : policy.kind == Kind::skip_first ? position >= skipped
                                                                 : position < layers - skipped;
        (quantised ? row.quantised : row.high) += width;
        ++position;
      }
      const auto same = std::find_if(plan.begin(), plan.end(), [&](const PlannedLinear& other) {
        return other.linear == row.linear && other.quantised == row.quantised;
      });
      if (same == plan.end()) {
        plan.push_back(row);
      } else {
        ++same->blocks;
      }
    }
  return plan;
}

}  // namespace fp4::cost
