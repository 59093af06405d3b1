// What a panel quantiser needs to know, worked out once per call: which vector path fits a spec and its constants.
// Whatever no vector path fits goes, block by block, through the scalar core (block.h): the result is the same bits.
#pragma once

#include "src/cpu/gemm/panels.h"

namespace fp4::cpu {

// How a payload is formed. `power` multiplies by an exact power of two (times p): exact before rounding, which
// `power_in_bf16` does to bf16 first. `encode` divides, then multiplies.
enum class PayloadPath : uint8_t { power, power_in_bf16, divide, multiply, exact, encode, encode_exact, none, scalar };
// How a scale code is formed: from the block maximum by exponent or by quotient, by trials (four_over_six, mse), from
// the variance (quest_*), or by the scalar core.
enum class ScalePath : uint8_t { power, quotient, trials, variance, scalar, none };
// How codes are formed: `table` looks floor(step*u)+ceil(step*u) up (deterministic roundings of FP4), `stochastic_fp4`
// draws on the e2m1 grid, `generic` rounds to any format.
enum class CodePath : uint8_t { table, stochastic_fp4, generic };

struct QuantPlan {
  QuantSpec spec;
  Quantizer q;
  BlockGeometry geometry;
  HadamardSpec hadamard;
  HadamardSignMask signs;
  MatrixView x;
  int64_t rows = 0;
  int64_t cols = 0;  // K with Hadamard padding
  int64_t row_offset = 0;
  bool is_flat = false;  // flat_operand.h
  RandomPlace place;
  float held_amax = -1.0f;
  int threads = 1;
  TensorFactor factor;

  ScalePath scale_path = ScalePath::scalar;
  PayloadPath payload_path = PayloadPath::scalar;
  CodePath code_path = CodePath::generic;

  // ScalePath::power: code = ((amax bits + rule_add) >> 23) - rule_subtract, clamped to [0, 254]. Exponents of float
  // log2 have a rule_add for each exponent field of the maximum.
  int32_t rule_add = 0;
  const uint32_t* rule_adds = nullptr;
  int32_t rule_subtract = 0;
  bool rule_is_irrational = false;  // nearest_log2: the threshold is no float
  bool has_tensor_factor = false;   // g may differ from 1
  bool is_directed = false;         // rounding away from zero or toward an infinity
  bool prepares = false;            // elements change as they are read: load_body.h
  float largest_element = 6.0f;
  float largest_power = 4.0f;  // of two in the element format
  uint32_t zero_block_code = 0;
  int32_t least_scale_code = 0;          // from scale_floor
  int32_t most_scale_code = 0x7FFFFFFF;  // from scale_ceiling
  uint32_t code_instead_of_zero = 0;

  // CodePath::table
  float steps = 4.0f;        // grid steps per unit: every rounding boundary is a multiple of 1/steps
  bool clamp_index = false;  // scaled maxima may pass 64 half steps
  int8_t table[128] = {};    // signed value / quantum by index mod 128
  int quantum_log2 = -1;
};

QuantPlan make_plan(const QuantizeCall& call);

}  // namespace fp4::cpu
