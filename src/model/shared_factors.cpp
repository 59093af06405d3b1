#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/model/engine_config.h"
#include "src/model/model_stream.h"
#include "src/model/weight_reader.h"
#include "src/stream/quantize_bands.h"

namespace fp4 {
namespace {

// The plans of one way, and the group of each.
struct Grouped {
  std::vector<TensorPlan*> plans = {};
  std::vector<int> groups = {};
};
Grouped grouped(ModelPlan& model, Way way, const FuseRules& rules) {
  Grouped out;
  std::vector<std::string> modules;
  for (TensorPlan& plan : model.plans) {
    if (plan.way != way || !plan.has_factor) continue;
    out.plans.push_back(&plan);
    modules.push_back(module_of(plan.tensor->whole));
  }
  out.groups = fused_groups(rules, modules);
  return out;
}

}  // namespace

void set_groups(ModelPlan& model) {
  if (model.job.scheme == nullptr) return;
  if (model.spec.has_tensor_scale()) {
    const Grouped anew = grouped(model, Way::quantise, model.job.fuse);
    for (size_t i = 0; i < anew.plans.size(); ++i) anew.plans[i]->group = anew.groups[i];
  }
  const Grouped carried = grouped(model, Way::carry, {});
  std::map<int, std::pair<const TensorPlan*, std::vector<float>>> first;  // of each group
  std::set<int> told;
  for (size_t i = 0; i < carried.plans.size(); ++i) {
    const int group = carried.groups[i];
    if (group < 0 || told.contains(group)) continue;
    const TensorPlan* plan = carried.plans[i];
    std::vector<float> factors = WeightReader(*plan->tensor).factors();
    const auto [at, is_new] = first.try_emplace(group, plan, factors);
    if (is_new || at->second.second == factors) continue;
    told.insert(group);
    model.notes.push_back(
        fmt::format("{} and {} keep unlike factors; engines that join them take the largest. --spec nvfp4 quantises "
                    "anew, with one",
                    at->second.first->tensor->name, plan->tensor->name));
  }
}

SharedAmax::SharedAmax(const ModelPlan& model) : model_(model) {
  for (const TensorPlan& plan : model.plans)
    if (plan.group >= 0) members_[plan.group].push_back(plan.tensor);
}

std::optional<float> SharedAmax::of(const TensorPlan& plan) {
  if (plan.group < 0) return std::nullopt;
  const auto [known, is_new] = amax_.try_emplace(plan.group, 0.0f);
  if (!is_new) return known->second;
  for (const ModelTensor* member : members_[plan.group]) {
    WeightReader reader(*member);
    const TensorAmax own =
        largest_magnitude(reader, model_.job.threads, model_.spec.nonfinite == Nonfinite::tensor_nan);
    if (own.has_nan) return known->second = float_of(canonical_nan_bits);
    known->second = std::max(known->second, own.finite);
  }
  return known->second;
}

}  // namespace fp4
