// Decides: what a recipe says of the update itself.
//   states   in how many bits the optimizer keeps what it remembers (low_bit_states.h)
//   muon     momentum, iterations and number format of the optimizer `muon` (muon.h)
#pragma once

#include <string>
#include <vector>

#include "sim/rules/config.h"

namespace fp4::sim {

/// The words of the optimizers, in the order of Optimizer::Kind (sim/train/optim.h).
const std::vector<std::string>& optimizer_words();

/// Rows of the "train" section that belong to the optimizer.
Schema optimizer_schema();

enum class Moments : uint8_t { fp32, dynamic8, dynamic4 };

struct UpdateRules {
  Moments moments = Moments::fp32;
  bool bf16_weights = false;      // the master weights, rounded stochastically after each update
  float momentum = 0.95f;         // of muon
  int iterations = 5;             // of Newton and Schulz
  std::string products = "bf16";  // a preset: the format of both operands of their products
  bool has_states() const { return moments != Moments::fp32 || bf16_weights; }
  bool has_muon() const { return *this != with_states(); }
  friend bool operator==(const UpdateRules&, const UpdateRules&) = default;

 private:
  UpdateRules with_states() const {
    UpdateRules plain;
    plain.moments = moments, plain.bf16_weights = bf16_weights;
    return plain;
  }
};

/// {"moments": "8bit", "weights": "bf16"} and {"momentum": 0.95, "iterations": 5, "products": "bf16"}, over `rules`.
void states_from(const JsonReader& given, UpdateRules& rules);
void muon_from(const JsonReader& given, UpdateRules& rules);
Json states_to(const UpdateRules& rules);
Json muon_to(const UpdateRules& rules);

}  // namespace fp4::sim
