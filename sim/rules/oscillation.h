// Decides: what is done about weights that hop between two grid values while they hardly move.
//   average (Q-EMA, TetraJet 2502.20853)   E = decay * E + (1 - decay) * w from step `from` on; of the two grid
//     neighbours of w the one nearer to E is taken, at the scale of w; halfway: the one that the rounding took
//   reset (OsciReset, TetraJet-v2 2510.27527)   over the last `window` of every `every` steps the sums d_w of |w_t -
//     w_t-1| and d_Q of |Q(w_t) - Q(w_t-1)|; at their end weights with d_Q >= threshold * d_w > 0 become Q(w)
//   ramp (Q-Ramping, TetraJet 2502.20853)   over the first `window` of every `every` steps the same sums; in the
//     others a weight is updated in every N-th step only, N = floor(d_Q / (threshold d_w)) factor + 1, at most `every`:
//     by the mean of the gradients since its last update and N times the learning rate (optim.h)
// Q is fprop's quantiser of the weights of a linear layer, which has no Hadamard then.
#pragma once

#include <vector>

#include "fp4/backend.h"
#include "sim/tape/tensor.h"
#include "src/text/json_reader.h"

namespace fp4::sim {

struct WeightRules {
  float decay = 0;  // of the average; 0: none
  int from = 10;
  int every = 0;  // steps between resets; 0: none
  int window = 50;
  float threshold = 6;
  int ramp_every = 0;  // steps between measurements of a ramp; 0: none
  int ramp_window = 30;
  float ramp_threshold = 16, ramp_factor = 5;
  bool any() const { return decay > 0 || every > 0 || ramp_every > 0; }
  /// Whether the moves of a step (1, 2, ..) count for a reset, and whether one ends it.
  bool is_in_window(int step) const { return every > 0 && (step - 1) % every >= every - window; }
  bool resets_after(int step) const { return every > 0 && step % every == 0; }
  /// The same of a ramp: whether a step is measured, and whether it is the last of its window.
  bool is_measured(int step) const { return ramp_every > 0 && (step - 1) % ramp_every < ramp_window; }
  bool ramps_after(int step) const { return ramp_every > 0 && (step - 1) % ramp_every == ramp_window - 1; }
  friend bool operator==(const WeightRules&, const WeightRules&) = default;
};

/// {"average": {"decay", "from"}, "reset": {"every", "window", "threshold"}, "ramp": {"every", "window", "threshold",
/// "factor"}}, and back; null for no rules.
WeightRules weight_rules_from(const JsonReader& given);
Json weight_rules_to(const WeightRules& rules);

/// How far weights and their quantised values have moved, element by element.
struct Oscillation {
  std::vector<float> weight, quantised;  // of the last step that was added
  std::vector<float> moved, jumped;      // d_w, d_Q

  void begin(const float* w, const float* q, int64_t n);
  void add(const float* w, const float* q);
  bool empty() const { return weight.empty(); }
  /// Sum of d_Q over sum of d_w; 0 where nothing moved.
  double ratio() const;
  /// Share of the elements with d_Q >= threshold * d_w > 0.
  double share(float threshold) const;
};

/// A weight that a ramp updates in every `period`-th step only.
struct SlowWeight {
  int64_t index = 0;          // in its layer
  float period = 1;           // steps from one update to the next
  float waited = 0, sum = 0;  // steps since the last update, and the sum of their gradients
};

/// Those of one layer; `weights` are the layer's.
struct SlowWeights {
  float* weights = nullptr;
  std::vector<SlowWeight>* rows = nullptr;
};

/// The elements whose period is above 1 after a window.
std::vector<SlowWeight> slow_weights(const Oscillation& oscillation, const WeightRules& rules);

/// Sets those elements of w to Q(w), `q`.
void reset(const Oscillation& oscillation, float threshold, const float* q, float* w);

/// Moves the codes of `q`, the quantised w, to the neighbours nearer to `average`; blocks with a NaN scale stay.
void lean_to_average(const float* w, const float* average, Quantized& q);

}  // namespace fp4::sim
