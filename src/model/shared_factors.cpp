#include "src/model/shared_factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/model/engine_config.h"
#include "src/model/weight_reader.h"
#include "src/stream/quantize_bands.h"

namespace fp4 {

SharedFactors::SharedFactors(const ModelJob& job, const QuantSpec& spec, const std::vector<Plan>& plans)
    : job_(job), plans_(plans), looks_for_nan_(spec.nonfinite == Nonfinite::tensor_nan) {
  if (job.scheme == nullptr || !spec.has_tensor_scale()) return;
  std::vector<const Plan*> weights;
  std::vector<std::string> modules;
  for (const Plan& plan : plans) {
    if (plan.way != Way::quantise) continue;
    weights.push_back(&plan);
    modules.push_back(module_of(plan.tensor->whole));
  }
  const std::vector<int> groups = fused_groups(job.fuse, modules);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (groups[i] < 0) continue;
    of_plan_[weights[i]] = groups[i];
    members_[groups[i]].push_back(weights[i]->tensor);
  }
}

std::vector<std::string> SharedFactors::notes() const {
  std::vector<const Plan*> weights;
  std::vector<std::string> modules, notes;
  for (const Plan& plan : plans_) {
    if (plan.way != Way::carry || !plan.has_factor) continue;
    weights.push_back(&plan);
    modules.push_back(module_of(plan.tensor->whole));
  }
  const std::vector<int> groups = fused_groups({}, modules);
  std::map<int, std::pair<size_t, std::vector<float>>> first;  // of each group
  std::set<int> told;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (groups[i] < 0 || told.contains(groups[i])) continue;
    std::vector<float> factors = WeightReader(*weights[i]->tensor).factors();
    const auto [at, is_new] = first.try_emplace(groups[i], i, factors);
    if (is_new || at->second.second == factors) continue;
    told.insert(groups[i]);
    notes.push_back(
        fmt::format("{} and {} keep unlike factors; engines that join them take the largest. --spec {} "
                    "quantises anew, with one",
                    weights[at->second.first]->tensor->name, weights[i]->tensor->name, "nvfp4"));
  }
  return notes;
}

int SharedFactors::group(const Plan& plan) const {
  const auto at = of_plan_.find(&plan);
  return at == of_plan_.end() ? -1 : at->second;
}

std::optional<float> SharedFactors::amax(const Plan& plan) {
  const int number = group(plan);
  if (number < 0) return std::nullopt;
  const auto [known, is_new] = amax_.try_emplace(number, 0.0f);
  if (!is_new) return known->second;
  for (const ModelTensor* member : members_[number]) {
    WeightReader reader(*member);
    const TensorAmax own = largest_magnitude(reader, job_.threads, looks_for_nan_);
    if (own.has_nan) return known->second = float_of(canonical_nan_bits);
    known->second = std::max(known->second, own.finite);
  }
  return known->second;
}

}  // namespace fp4
