// The groups of weights that share a tensor scale (fused_groups.h), and the largest magnitude of each.
#pragma once

#include <map>
#include <optional>

#include "src/model/model_plan.h"

namespace fp4 {

// Gives quantised weights the number of their group, and notes those that are carried with factors of their own
// although engines join them. No groups where the spec has no tensor scale.
void set_groups(ModelPlan& model);

class SharedAmax {
 public:
  // `model` must outlive it.
  explicit SharedAmax(const ModelPlan& model);
  // The largest finite magnitude among the members of the plan's group, which are all read when the first of them
  // asks; NaN where one has a NaN and the spec poisons the factor. Nothing without a group.
  std::optional<float> of(const Plan& plan);

 private:
  const ModelPlan& model_;
  std::map<int, std::vector<const ModelTensor*>> members_ = {};
  std::map<int, float> amax_ = {};
};

}  // namespace fp4
