// Layer policies. skip_last 0.15 of 224 layers is 33.6, so 34: the last four blocks of seven layers and six layers of
// the block before. A fused GEMM (q, k and v) may then be split between precisions, column by column.
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

// "down" is that layer of every block, "block3.down" of one.
bool matches(const std::string& word, const std::string& layer, int64_t block) {
  return word == layer || word == fmt::format("block{}.{}", block, layer);
}

void check_names(const Model& model, const LayerPolicy& policy) {
  std::set<std::string> known;
  std::vector<std::string> accepted;
  for (const Linear& linear : model.linears)
    for (const std::string& layer : linear.layers) {
      known.insert(layer);
      accepted.push_back(layer);
      for (int64_t block = 0; block < model.blocks; ++block) known.insert(fmt::format("block{}.{}", block, layer));
    }
  accepted.emplace_back("blockN.NAME");
  for (const std::string& name : policy.names)
    if (!known.contains(name)) throw unknown_word(fmt::format("layers of model {}", model.name), name, accepted);
}

bool named(const LayerPolicy& policy, const std::string& layer, int64_t block) {
  const auto match = [&](const std::string& word) { return matches(word, layer, block); };
  return std::any_of(policy.names.begin(), policy.names.end(), match);
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
      for (size_t i = 0; i < linear.out.size(); ++i) {
        const int64_t width = linear.out[i];
        const bool quantised = policy.kind == Kind::names        ? named(policy, linear.layers[i], block)
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
