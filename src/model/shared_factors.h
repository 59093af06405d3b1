// The groups of weights that share a tensor scale (fused_groups.h), and the largest magnitude of each.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/model/model_plan.h"

namespace fp4 {

class SharedFactors {
 public:
  // None where the spec has no tensor scale. `job` and `plans` must outlive it.
  SharedFactors(const ModelJob& job, const QuantSpec& spec, const std::vector<Plan>& plans);

  // Of weights that are carried with factors of their own although engines join them: what a person should hear.
  std::vector<std::string> notes() const;

  // The number of the plan's group, from 0; -1 without one.
  int group(const Plan& plan) const;
  // The largest finite magnitude among the members of the plan's group, which are all read when the first of them
  // asks; NaN where one has a NaN and the spec poisons the factor. Nothing without a group.
  std::optional<float> amax(const Plan& plan);

 private:
  const ModelJob& job_;
  const std::vector<Plan>& plans_;
  bool looks_for_nan_;
  std::map<const Plan*, int> of_plan_ = {};
  std::map<int, std::vector<const ModelTensor*>> members_ = {};
  std::map<int, float> amax_ = {};
};

}  // namespace fp4
