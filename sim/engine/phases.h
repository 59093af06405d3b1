// Decides: what a recipe makes of a model's layers over a training: which follow it, what their products are in each
// phase, and when a phase begins.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "sim/engine/gradient_noise.h"
#include "sim/engine/layer.h"
#include "sim/engine/trace.h"

namespace fp4::sim {

class Phases {
 public:
  Phases(const TrainingRecipe& recipe, std::vector<Layer>& layers);

  // As LinearEngine says.
  void finish(const Dispatcher& backend);
  void begin_step(int step, int steps);
  void end_step(int step, const std::function<void(const TraceRow&)>* trace);
  std::string reason_against_device();
  std::array<PrecisionCounts, 3> products() const;

  int turned = 0;  // the first phase that a condition has begun, 0: none
  GradientNoise noise;

 private:
  void plan(int phase);
  int first() const { return recipe_.phases.empty() ? -1 : 0; }
  LayerPlace place_of(const Layer& layer) const { return {layer.name, layer.position, quantisable_}; }

  const TrainingRecipe& recipe_;
  std::vector<Layer>& layers_;
  TrainingRecipe skipped_;  // every product bf16: layers that the policy leaves out
  int quantisable_ = 0;     // layers
  bool has_attention_ = false;
  int phase_ = -1;                          // -1: none
  std::array<PrecisionCounts, 3> earlier_;  // products of earlier phases
};

/// The words of a product's operands ("e2m1", "e2m1 x e4m3").
std::string precision_of(const GemmSpec& s);

}  // namespace fp4::sim
