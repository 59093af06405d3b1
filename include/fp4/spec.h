// What to compute, as plain data: QuantSpec (one operand; quant_spec.h), GemmSpec (one product), Recipe (a training
// recipe). `resolve` turns a QuantSpec into the numbers that kernels carry; `invalid_reason` says why a combination of
// legal words means nothing, so that a grid can count impossible points. Words and JSON live in src/spec_text.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "fp4/accumulate.h"
#include "fp4/block.h"
#include "fp4/estimator.h"
#include "fp4/hadamard.h"

namespace fp4 {

constexpr Quantizer resolve(QuantSpec s) {
  if (!(s.target > 0.0f)) s.target = default_target(s);
  if (!s.has_scale()) {
    s.tensor_scale = TensorScale::none;
    s.compute = Compute::fp32;
    s.headroom = Headroom::none;
    s.payload = PayloadOrder::of_arithmetic;
    s.payload_type = PayloadType::of_compute;
    s.choice = {};
  }
  return {s, format_of(s.element), format_of(s.scale), s.choice.is_on ? &format_of(s.choice.other) : nullptr};
}

// How an operand [rows, K] is cut into blocks.
struct BlockGeometry {
  int64_t block_rows = 1;
  int64_t block_cols = 1;
  int64_t scale_rows = 0;   // blocks down
  int64_t scale_cols = 0;   // blocks along K
  int64_t padded_cols = 0;  // K' of the code array
};

constexpr BlockGeometry geometry_of(const QuantSpec& s, int64_t rows, int64_t cols) {
  BlockGeometry g;
  const int64_t b = s.block.size;
  if (!s.has_scale()) return {1, larger<int64_t>(cols, 1), 0, 0, cols};
  switch (s.block.kind) {
    case BlockKind::vector: g = {1, b, rows, 0, 0}; break;
    case BlockKind::square: g = {b, b, (rows + b - 1) / b, 0, 0}; break;
    case BlockKind::row: return {1, larger<int64_t>(cols, 1), rows, 1, cols};
    case BlockKind::tensor: return {larger<int64_t>(rows, 1), larger<int64_t>(cols, 1), 1, 1, cols};
  }
  g.scale_cols = (cols + b - 1) / b;
  g.padded_cols = g.scale_cols * b;
  return g;
}

// What elements that are lists of values, a choice of two and micro-exponents ask of the other fields.
inline std::string invalid_grid_reason(const QuantSpec& s) {
  const FloatFormat& element = format_of(s.element);
  const bool is_listed = element.is_grid() || (s.choice.is_on && format_of(s.choice.other).is_grid());
  const bool is_blocked = s.block.kind == BlockKind::vector || s.block.kind == BlockKind::square;
  if (element.has_micro() && !s.has_scale()) return "elements with micro-exponents need a block scale";
  if (element.is_grid() && s.subnormals != Subnormals::keep) return "elements that are lists take no subnormals=flush";
  if (!s.has_scale()) return "";
  if ((is_listed || s.choice.is_on) &&
      (s.payload_type != PayloadType::of_compute || s.scale_overflow != ScaleOverflow::saturate ||
       s.subnormals != Subnormals::keep))
    return "elements that are lists, and choices, take no payload_type, scale_overflow and subnormals";
  if (is_listed && !s.choice.is_on && s.error_order != ErrorOrder::fp64)
    return "elements that are lists take error_order in a choice alone";
  if (is_listed && (s.scale_rule == ScaleRule::even || s.scale_rule == ScaleRule::even_above))
    return "scale_rule even and even_above round a mantissa: the element must be a float format";
  if (element.is_grid() && element.grid->calls != nullptr && element.grid->calls->scale != nullptr &&
      (!is_blocked || s.tensor_scale == TensorScale::hold || s.scale_rule == ScaleRule::encode || s.choice.is_on))
    return "an element's own scale needs 1 x B or B x B blocks, no scale_rule encode, choice and tensor_scale hold";
  if (element.has_micro()) {
    for (const MicroLevel& level : element.grid->micro) {
      if (level.per > 0 && (s.block.kind != BlockKind::vector || s.block.size % level.per != 0))
        return "micro-exponents divide 1 x B blocks evenly";
    }
    if (s.arithmetic != Arithmetic::exact && s.arithmetic != Arithmetic::bf16_reciprocals)
      return "micro-exponents need arithmetic exact or bf16_reciprocals";
    if (tries_codes(s.scale_rule) || s.corrects_scales() || s.scale_rule == ScaleRule::encode)
      return "micro-exponents are not defined for scale_rule four_over_six, mse, ms_eden and encode";
    if (s.choice.is_on) return "choice and micro-exponents exclude each other";
  }
  if (!s.choice.is_on) return "";
  const FloatFormat& other = format_of(s.choice.other);
  if (other.has_micro()) return "choice and micro-exponents exclude each other";
  if (other.code_bits() != element.code_bits()) return "the grids of a choice must have codes of the same bits";
  if (format_of(s.scale).code_bits() != 7)
    return "choice needs a scale with an unused bit for its flag: ue4m3, ue5m2, ue3m4, ue2m5 or ue1m6";
  if (s.scale_rule == ScaleRule::encode || s.corrects_scales())
    return "choice is not defined for scale_rule encode and ms_eden";
  if (s.decode == Decode::amax_first) return "choice is not defined for decode amax_first";
  return "";
}

// What breaks a combination of fields, and what is said then; of several the first.
struct SpecRule {
  bool is_broken;
  const char* reason;
};
inline const char* first_broken(std::initializer_list<SpecRule> rules) {
  for (const SpecRule& rule : rules)
    if (rule.is_broken) return rule.reason;
  return "";
}

// Blocks and the rules of their scales.
inline const char* invalid_block_reason(const QuantSpec& s) {
  const FloatFormat& scale = format_of(s.scale);
  bool is_size = s.block.kind == BlockKind::row || s.block.kind == BlockKind::tensor;
  for (const int size : block_sizes) is_size = is_size || s.block.size == size;
  return first_broken({
      {s.element == Element::bf16 || s.element == Element::fp16 || s.element == Element::fp32,
       "elements bf16, fp16 and fp32 carry their own exponents: scale must be none"},
      {!is_size, "block must be 8, 16, 32, 64 or 128, one of these squared, row or tensor"},
      {s.scale_rule == ScaleRule::uos && s.element != Element::e2m1, "scale_rule uos is defined for e2m1 only"},
      {s.scale_rule == ScaleRule::four_over_six && scale.mantissa_bits == 0,
       "scale_rule four_over_six needs a scale format with mantissa bits"},
      {s.corrects_scales() && (scale.mantissa_bits == 0 || s.block.kind != BlockKind::vector),
       "scale_rule ms_eden needs 1 x B blocks and a scale format with mantissa bits"},
      {s.corrects_scales() && s.scale_rounding != Rounding::nearest_even,
       "scale_rule ms_eden rounds its scales stochastically itself: scale_rounding must be nearest_even"},
      {s.tensor_scale == TensorScale::row && s.block.kind != BlockKind::vector, "tensor_scale row needs 1 x B blocks"},
  });
}

// Orders of operations, their types, and what they start from.
inline const char* invalid_order_reason(const QuantSpec& s) {
  const bool has_own_order = s.arithmetic == Arithmetic::te || s.arithmetic == Arithmetic::vllm ||
                             s.arithmetic == Arithmetic::divide_global || s.arithmetic == Arithmetic::modelopt ||
                             s.arithmetic == Arithmetic::multiply || s.arithmetic == Arithmetic::fouroversix ||
                             s.arithmetic == Arithmetic::factor_first || s.arithmetic == Arithmetic::bf16_reciprocals;
  const bool is_fp32_order = payload_order_of(s.arithmetic) != PayloadOrder::of_arithmetic;
  const bool is_given = s.tensor_scale == TensorScale::given;
  const bool has_error_order =
      starts_from_multiplier(s.arithmetic) || (s.error_order == ErrorOrder::scaled && s.choice.is_on && is_fp32_order);
  return first_broken({
      {s.scale_rule == ScaleRule::encode && has_own_order,
       "scale_rule encode is defined for arithmetic exact, divide and reciprocal, not for te and others in fp32"},
      {s.payload != PayloadOrder::of_arithmetic && (!is_fp32_order || s.scale_rule == ScaleRule::encode),
       "payload orders of their own need an arithmetic in fp32, not exact nor multiply, and no scale_rule encode"},
      {s.payload != PayloadOrder::of_arithmetic && reads_multiplier(s.payload) && !starts_from_multiplier(s.arithmetic),
       "payload divide_global, multiply_global and divide_then_multiply read S: arithmetic must be te, vllm, "
       "divide_global or fouroversix"},
      {s.payload_type != PayloadType::of_compute && (s.has_tensor_scale() || s.scale_rule == ScaleRule::encode),
       "payload_type bf16 takes no tensor scale and no scale_rule encode"},
      {s.factor_order != FactorOrder::of_arithmetic && !starts_from_multiplier(s.arithmetic),
       "factor_order needs an arithmetic that starts from S: te, vllm, divide_global, multiply or fouroversix"},
      {is_given != (s.factor != 0.0f) || !(s.factor >= 0.0f) || !is_finite(s.factor),
       "tensor_scale given needs a positive factor, and factor needs tensor_scale given: tensor_scale=NUMBER says "
       "both"},
      {is_given && (s.decode == Decode::amax_first || s.factor_format != FactorFormat::fp32),
       "tensor_scale given knows no amax and no factor_format"},
      {s.error_order != ErrorOrder::fp64 && ((!tries_codes(s.scale_rule) && !s.choice.is_on) || !s.has_tensor_scale() ||
                                             !has_error_order || s.prescale != 1.0f),
       "error orders in fp32 need scale_rule four_over_six or mse or a choice, a tensor scale, an arithmetic that "
       "starts from S (scaled of a choice: one in fp32) and no prescale"},
      {s.error_order != ErrorOrder::fp64 && (s.block.kind == BlockKind::row || s.block.kind == BlockKind::tensor),
       "error orders in fp32 are defined for 1 x B and B x B blocks"},
      {s.error_order == ErrorOrder::decoded_amax && is_given, "error_order decoded_amax needs the tensor's amax"},
      {s.arithmetic == Arithmetic::multiply && is_quest(s.scale_rule),
       "arithmetic multiply is not defined for quest rules"},
      {s.has_tensor_scale() && s.factor_format == FactorFormat::mantissa8 && s.scale != Scale::e8m0,
       "factor_format mantissa8 leaves its exponent to the block scales: scale must be e8m0"},
      {s.has_tensor_scale() && s.factor_format != FactorFormat::fp32 && s.decode == Decode::amax_first,
       "decode amax_first stores the amax in fp32: factor_format must be fp32"},
  });
}

// Types of operations, logarithms and decoding.
inline const char* invalid_decode_reason(const QuantSpec& s) {
  const FloatFormat& scale = format_of(s.scale);
  const bool knows_log2 = s.scale_rule == ScaleRule::floor || s.scale_rule == ScaleRule::ceil ||
                          s.scale_rule == ScaleRule::rceil || s.scale_rule == ScaleRule::even ||
                          s.scale_rule == ScaleRule::even_above || s.scale_rule == ScaleRule::nearest_log2 ||
                          s.scale_rule == ScaleRule::nearest_log2_amax;
  const bool rounds_up = s.scale_rule == ScaleRule::ceil || s.scale_rule == ScaleRule::rceil ||
                         s.scale_rule == ScaleRule::nearest_log2 || s.scale_rule == ScaleRule::nearest_log2_amax;
  return first_broken({
      {s.compute != Compute::fp32 && (s.arithmetic == Arithmetic::exact || s.scale_rule == ScaleRule::encode),
       "compute bf16 and fp16 round operations: arithmetic must not be exact, nor scale_rule encode"},
      {s.compute != Compute::fp32 && is_quest(s.scale_rule), "compute bf16 and fp16 are not defined for quest rules"},
      {s.exponent == Exponent::float_log2 && !knows_log2,
       "exponent float_log2 is defined for scale_rule floor, ceil, rceil, even, even_above, nearest_log2 and "
       "nearest_log2_amax"},
      {s.exponent == Exponent::float_log2 && (s.compute == Compute::fp16 || (s.compute != Compute::fp32 && rounds_up)),
       "exponent float_log2 is defined in bf16 for scale_rule floor, even and even_above, in fp16 for none"},
      {s.decode != Decode::scale_then_tensor && (s.prescale != 1.0f || s.scale_rule == ScaleRule::encode),
       "decode orders other than scale_then_tensor take no prescale and no scale_rule encode"},
      {s.decode == Decode::divide_global && !starts_from_multiplier(s.arithmetic),
       "decode divide_global needs an arithmetic that starts from S: te, vllm, divide_global, multiply or fouroversix"},
      {s.decode == Decode::amax_first && (s.corrects_scales() || tries_codes(s.scale_rule)),
       "decode amax_first is not defined for scale_rule ms_eden, four_over_six and mse"},
      {s.scale_rule == ScaleRule::encode && s.zero_scale == ZeroScale::keep && scale.has_zero,
       "zero_scale keep is not defined for scale_rule encode"},
  });
}

// Numbers, and words that only some scales have.
inline const char* invalid_range_reason(const QuantSpec& s) {
  const FloatFormat& scale = format_of(s.scale);
  return first_broken({
      {s.scale_rounding != Rounding::nearest_even && s.scale_rounding != Rounding::toward_positive &&
           s.scale_rounding != Rounding::stochastic && s.scale_rounding != Rounding::nearest_away &&
           s.scale_rounding != Rounding::toward_zero,
       "scale_rounding must be nearest_even, nearest_away, toward_positive, toward_zero or stochastic"},
      {s.tensor_scale == TensorScale::outer128 && s.block.kind != BlockKind::vector,
       "tensor_scale outer128 needs 1 x B blocks"},
      {!(s.target >= 0.0f) || !is_finite(s.target), "target must be a positive number"},
      {s.hold_steps < 1, "hold_steps must be at least 1"},
      {!(s.scale_floor >= 0.0f) || s.scale_floor > decode(scale, scale.largest_code),
       "scale_floor must lie between 0 and the largest scale"},
      {!(s.scale_ceiling >= 0.0f) || (s.scale_ceiling > 0.0f && s.scale_ceiling < s.scale_floor),
       "scale_ceiling must be 0 (none) or at least scale_floor"},
      {s.scale_ceiling > 0.0f && s.scale_ceiling < decode(scale, scale.has_zero ? 1u : 0u),
       "scale_ceiling must be 0 (none) or at least the smallest scale"},
      {!(s.scale_add >= 0.0f) || (s.scale_add > 0.0f && s.scale_add < 0x1p-126f),
       "scale_add must be 0 or a normal positive number"},
      {s.scale_add > 0.0f && s.scale_rule != ScaleRule::quest_floor, "scale_add belongs to scale_rule quest_floor"},
      {s.headroom != Headroom::none && s.scale_rule != ScaleRule::amax && !tries_codes(s.scale_rule),
       "headroom needs scale_rule amax, four_over_six or mse"},
      {s.headroom != Headroom::none && s.has_tensor_scale() && s.factor_format == FactorFormat::mantissa8,
       "headroom and factor_format mantissa8 exclude each other: that does not read the target"},
      {s.nonfinite == Nonfinite::tensor_nan && !(s.has_tensor_scale() && scale.has_nan()),
       "nonfinite tensor_nan needs a tensor scale and a scale format that has NaN"},
  });
}

// Why this combination is impossible; empty when it is fine.
inline std::string invalid_reason(const QuantSpec& s) {
  if (s.random_bits != 4 && s.random_bits != 8 && s.random_bits != 16 && s.random_bits != 32)
    return "random_bits must be 4, 8, 16 or 32";
  if (s.prescale != 1.0f && s.prescale != 0.75f) return "prescale must be 1 or 0.75";
  if (std::string reason = invalid_grid_reason(s); !reason.empty()) return reason;
  if (!s.has_scale()) return "";
  for (const auto reason : {invalid_block_reason, invalid_order_reason, invalid_decode_reason, invalid_range_reason})
    if (const std::string why = reason(s); !why.empty()) return why;
  return "";
}

// Where an operand of a backward product comes from.
enum class Source : uint8_t { high_precision, fprop_quantised };
inline constexpr AxisRow<Source> source_table[] = {
    {Source::high_precision, "high_precision", "quantised from the high-precision tensor", "2509.25149"},
    {Source::fprop_quantised, "fprop_quantised", "quantised again from the decoded forward operand",
     "TetraJet 2502.20853"},
};
static_assert(ids_are_indices(source_table));

struct OperandSpec {
  QuantSpec quant;
  Source source = Source::high_precision;  // dgrad.b and wgrad.b
  EstimatorSpec estimator;                 // fprop only
  friend constexpr bool operator==(const OperandSpec&, const OperandSpec&) = default;
};

// Parts of a product that are quantised apart and added: what stands in the second part (sim/rules/split.h).
enum class Split : uint8_t { none, hot_channels, clamp, low_rank };
struct SplitInfo {
  Split id;
  const char* name;
  const char* doc;
  const char* source;
  double share;      // as default
  const char* high;  // preset of the second part; none: the operands' own
};
inline constexpr SplitInfo split_table[] = {
    {Split::none, "none", "one product", "-", 0, ""},
    {Split::hot_channels, "hot_channels", "the `share` of the channels with the largest magnitudes, in `high`",
     "OutControl 2510.27527, Hot-Channel Patch 2602.02047", 0.1, "mxfp8"},
    {Split::clamp, "clamp", "what lies beyond the quantiles `share` and 1 - `share`, sparse, in `high`",
     "OCC 2501.17116", 0.01, "bf16"},
    {Split::low_rank, "low_rank", "each operand's largest singular values, `share` of all, as fp32 between its factors",
     "Metis 2509.00404", 0.01, ""},
};
static_assert(ids_are_indices(split_table));

struct SplitSpec {
  Split kind = Split::none;
  double share = 0;
  QuantSpec high;  // of both operands of the second product
  friend constexpr bool operator==(const SplitSpec&, const SplitSpec&) = default;
  constexpr bool any() const { return kind != Split::none; }
};

// C = Q(A) Q(B)^T with A [rows, K], B [cols, K].
struct GemmSpec {
  OperandSpec a;
  OperandSpec b;
  HadamardSpec hadamard;
  Accumulator accumulator = fp32_block;
  SplitSpec split;
  friend constexpr bool operator==(const GemmSpec&, const GemmSpec&) = default;
};

// Which quantisable linear layers are quantised. `amount` < 1 is a share of them, rounded to nearest, half up.
struct LayerPolicy {
  enum class Kind : uint8_t { all, skip_first, skip_last, names };
  Kind kind = Kind::all;
  double amount = 0;
  std::vector<std::string> names;
  friend bool operator==(const LayerPolicy&, const LayerPolicy&) = default;
};

// A named point of the design space: how the three products of a linear layer are quantised, and where.
struct Recipe {
  std::string name;
  std::string doc;
  std::string source;
  std::string deviations;  // what is known to differ from the source
  GemmSpec fprop;          // Y  = Q(X) Q(W)^T
  GemmSpec dgrad;          // dX = Q(dY) Q(W^T)^T
  GemmSpec wgrad;          // dW = Q(dY^T) Q(X^T)^T
  bool quantise = true;    // false: the plain products, Hadamards kept
  LayerPolicy layers;
  std::string optimizer;  // empty: the task's own
  bool loss_scaling = false;
};

}  // namespace fp4
