// Layer policies. skip_last 0.15 of 224 layers is 33.6, so 34: the last four blocks of seven layers and six layers of
// the block before. A fused GEMM (q, k and v) may then be split between precisions, column by column.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/text/error.h"
#include "sweeps/cost/cost.h"

namespace fp4::cost {

namespace {

int64_t policy_layers(const QuantisedLayers& policy, int64_t layers) {
  if (policy.count >= 1) return std::min(layers, static_cast<int64_t>(policy.count));
  return static_cast<int64_t>(std::floor(policy.count * static_cast<double>(layers) + 0.5));
}

// "down" is that layer of every block, "block3.down" of one.
bool matches(const std::string& word, const std::string& layer, int64_t block) {
  return word == layer || word == fmt::format("block{}.{}", block, layer);
}

void check_names(const Model& model, const QuantisedLayers& policy) {
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

bool named(const QuantisedLayers& policy, const std::string& layer, int64_t block) {
  const auto match = [&](const std::string& word) { return matches(word, layer, block); };
  return std::any_of(policy.names.begin(), policy.names.end(), match);
}

// Equal rows become one that stands for several blocks.
void add_row(std::vector<PlannedLinear>& plan, const PlannedLinear& row) {
  const auto same = std::find_if(plan.begin(), plan.end(), [&](const PlannedLinear& other) {
    return other.linear == row.linear && other.quantised == row.quantised && other.high == row.high &&
           other.facts == row.facts;
  });
  if (same == plan.end()) {
    plan.push_back(row);
  } else {
    ++same->blocks;
  }
}

bool is_high(const RecipeFacts& facts, const std::string& high_class) {
  const auto is_plain = [&](const GemmFacts& gemm) {
    return format_class(gemm) == high_class && !gemm.b.masked && gemm.split.second == 0 && gemm.split.rank == 0;
  };
  return is_plain(facts.fprop) && is_plain(facts.dgrad) && is_plain(facts.wgrad);
}

// Columns of one fused linear under the same rules are one row.
std::vector<PlannedLinear> plan_rules(const Model& model, const RecipeFacts& recipe) {
  std::vector<PlannedLinear> plan;
  const int layers = static_cast<int>(model.layers());
  int position = 0;
  for (int64_t block = 0; block < model.blocks; ++block)
    for (const Linear& linear : model.linears) {
      std::vector<PlannedLinear> rows;
      for (size_t i = 0; i < linear.out.size(); ++i) {
        RecipeFacts::LayerFacts facts =
            recipe.at_layer(fmt::format("block{}.{}", block, linear.layers[i]), position++, layers);
        const bool high = is_high(*facts, recipe.high_class);
        if (high) facts = nullptr;
        const auto same = std::find_if(
            rows.begin(), rows.end(), [&](const PlannedLinear& r) { return (r.high > 0) == high && r.facts == facts; });
        PlannedLinear& row = same != rows.end() ? *same : rows.emplace_back(PlannedLinear{&linear, 1, 0, 0, facts});
        (high ? row.high : row.quantised) += linear.out[i];
      }
      for (const PlannedLinear& row : rows) add_row(plan, row);
    }
  return plan;
}

}  // namespace

std::vector<PlannedLinear> plan_layers(const Model& model, const RecipeFacts& recipe) {
  using Kind = QuantisedLayers::Kind;
  const QuantisedLayers& policy = recipe.layers;
  const bool by_depth = recipe.by_depth || policy.kind == Kind::skip_first || policy.kind == Kind::skip_last;
  if (by_depth && model.blocks == 1 && model.reads_text())
    throw Error(
        fmt::format("model {} is one block of a network: the first or last layers that {} singles out are not "
                    "its own; take the whole model, or a recipe without rules over depth",
                    model.name, recipe.name.empty() ? "the recipe" : recipe.name));
  if (recipe.at_layer) return plan_rules(model, recipe);
  std::vector<PlannedLinear> plan;
  if (policy.kind == Kind::all) {
    for (const Linear& linear : model.linears) plan.push_back({&linear, model.blocks, linear.width_out(), 0, nullptr});
    return plan;
  }
  if (policy.kind == Kind::names) check_names(model, policy);
  const int64_t layers = model.layers(), skipped = policy_layers(policy, layers);
  int64_t position = 0;
  for (int64_t block = 0; block < model.blocks; ++block)
    for (const Linear& linear : model.linears) {
      PlannedLinear row{&linear, 1, 0, 0, nullptr};
      for (size_t i = 0; i < linear.out.size(); ++i) {
        const int64_t width = linear.out[i];
        const bool quantised = policy.kind == Kind::names        ? named(policy, linear.layers[i], block)
                               : policy.kind == Kind::skip_first ? position >= skipped
                                                                 : position < layers - skipped;
        (quantised ? row.quantised : row.high) += width;
        ++position;
      }
      add_row(plan, row);
    }
  return plan;
}

std::vector<PlannedProduct> plan_attention(const Model& model, const RecipeFacts& recipe) {
  std::vector<PlannedProduct> plan;
  if (model.attention_width == 0) return plan;
  for (const char* name : {"qk", "pv"})
    for (int64_t block = 0; block < model.blocks; ++block) {
      const auto facts = recipe.at_layer ? recipe.at_layer(fmt::format("block{}.{}", block, name), -1,
                                                           static_cast<int>(model.layers()))
                                         : nullptr;
      const auto same = std::find_if(plan.begin(), plan.end(), [&](const PlannedProduct& other) {
        return std::string_view(other.name) == name && other.facts == facts;
      });
      if (same == plan.end())
        plan.push_back({name, 1, facts});
      else
        ++same->blocks;
    }
  return plan;
}

}  // namespace fp4::cost
