// Chooses the vector paths of a quantisation and derives their constants from the core's tables.
#include "src/cpu/quantize/quantize_plan.h"

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "fp4/codec.h"
#include "src/arith/known_words.h"

namespace fp4::cpu {
namespace {

// Entry s stands for u = s/(2*steps): even s exactly, odd s for the open interval between two grid steps. All rounding
// boundaries are grid steps, so the middle of the interval represents it.
struct RoundingTable {
  int8_t entry[128];
};

RoundingTable make_table(const FloatFormat& element, float steps, Rounding rounding) {
  RoundingTable t;
  for (int s = -64; s < 64; ++s) {
    const float u = static_cast<float>(s) / (2.0f * steps);
    const uint32_t code = encode(element, exact_magnitude(u), s < 0, {rounding, 0, 0});
    const int64_t value = decode_fixed(element, code);
    t.entry[s & 127] = static_cast<int8_t>(s < 0 ? -value : value);
  }
  return t;
}

const RoundingTable& table_of(Element element, Rounding rounding) {
  struct Tables {
    RoundingTable of[2][std::size(rounding_table)] = {};  // e2m1, e1m2
  };
  static const Tables tables = [] {
    Tables t;
    for (const RoundingInfo& row : rounding_table) {
      if (row.is_stochastic) continue;
      t.of[0][static_cast<size_t>(row.id)] = make_table(format_of(Element::e2m1), 4.0f, row.id);
      t.of[1][static_cast<size_t>(row.id)] = make_table(format_of(Element::e1m2), 8.0f, row.id);
    }
    return t;
  }();
  return tables.of[element == Element::e2m1 ? 0 : 1][static_cast<size_t>(rounding)];
}

// The rules that only look at the exponent and mantissa of the maximum: one threshold on the mantissa, above which the
// exponent moves up; adding (2^23 - threshold) to the bits carries exactly then.
void set_power_rule(QuantPlan& p) {
  const FloatFormat& f = p.q.element;
  const Magnitude largest = f.largest();
  const int emax = f.max_exponent();
  const auto nearest = [&](double bound) {  // up when a > bound*2^k: irrational, so its rounded-down mantissa decides
    int exponent = 0;
    const double significand = 2.0 * std::frexp(bound, &exponent);
    p.rule_add = 0x7FFFFF - static_cast<int32_t>((significand - 1.0) * 0x1p23);
    p.rule_subtract = exponent - 1;
    p.rule_is_irrational = true;
  };
  const auto fraction =
      static_cast<int32_t>((largest.significand << (23 - floor_log2(largest.significand))) & 0x7FFFFF);
  p.scale_path = ScalePath::power;
  p.rule_subtract = emax;
  switch (p.q.scale_rule) {
    case ScaleRule::floor: p.rule_add = 0; return;
    case ScaleRule::ceil: p.rule_add = 0x7FFFFF; return;
    case ScaleRule::rceil: p.rule_add = 0x7FFFFF - fraction; return;
    case ScaleRule::even: p.rule_add = 1 << (23 - f.mantissa_bits - 1); return;
    case ScaleRule::uos: p.rule_add = 0x7FFFFF - 0x680000; return;  // 7.25 = 1.8125 * 4
    case ScaleRule::even_above: p.rule_add = (1 << (23 - f.mantissa_bits - 1)) - 1; return;
    case ScaleRule::floor_plus_one: p.rule_subtract = emax - 1; return;
    case ScaleRule::nearest_log2: return nearest(static_cast<double>(p.largest_element) * 1.4142135623730951);
    case ScaleRule::nearest_log2_amax: return nearest(static_cast<double>(p.largest_power) * 1.4142135623730951);
    case ScaleRule::quest_floor:
    case ScaleRule::quest_nearest:
    case ScaleRule::amax:
    case ScaleRule::encode:
    case ScaleRule::four_over_six:
    case ScaleRule::mse:
    case ScaleRule::ms_eden: break;
  }
  p.scale_path = ScalePath::scalar;
}

// Under float log2 the exponent of every rule moves up once in a binade of maxima, if at all: what added to the bits of
// a maximum of exponent field i carries from there on, and leaves the code plus `float_rule_offset` above the fraction.
// Entry 0 is not read.
constexpr int32_t float_rule_offset = 128;
using FloatRuleAdds = std::array<uint32_t, 256>;

FloatRuleAdds made_float_rule(ScaleRule rule, const FloatFormat& element, Compute compute) {
  FloatRuleAdds adds = {};
  for (uint32_t field = 1; field < 255; ++field) {
    const auto exponent = [&](uint32_t fraction) {
      return float_rule_exponent(rule, float_of(field << 23 | fraction), 1.0f, element, compute);
    };
    const int first = exponent(0);
    uint32_t low = 0, high = 1u << 23;  // the exponent is `first` at low, and above it at high
    while (high - low > 1) (exponent(low + (high - low) / 2) == first ? low : high) = low + (high - low) / 2;
    const int32_t above = first + 127 + float_rule_offset - static_cast<int32_t>(field);
    adds[field] = (static_cast<uint32_t>(above) << 23) + ((1u << 23) - high);
  }
  return adds;
}

const uint32_t* float_rule_adds(ScaleRule rule, Element element, Compute compute) {
  static std::mutex mutex;
  static std::map<std::tuple<ScaleRule, Element, Compute>, FloatRuleAdds> made;
  const std::lock_guard lock(mutex);
  const auto key = std::make_tuple(rule, element, compute);
  const auto found = made.find(key);
  if (found != made.end()) return found->second.data();
  return made.emplace(key, made_float_rule(rule, format_of(element), compute)).first->second.data();
}

// Trials whose errors lanes sum as the core does: in fp64 of values decoded the plain way, or, of two, in fp32.
bool sums_trials(const QuantPlan& p) {
  if (p.q.error_order == ErrorOrder::fp64) return p.q.decode == Decode::scale_then_tensor;
  const FloatFormat& f = p.q.element;
  return p.q.scale_rule == ScaleRule::four_over_six && f.has_zero && f.mantissa_bits > 0 && !f.overflows;
}

void choose_scale_path(QuantPlan& p) {
  if (!p.q.has_scale()) {
    p.scale_path = ScalePath::none;
    return;
  }
  const FloatFormat& f = p.q.scale;
  p.zero_block_code = apply_scale_policies(p.q, zero_block_code(p.q));
  if (p.q.scale_floor > 0.0f) {
    p.least_scale_code =
        static_cast<int32_t>(encode(f, exact_magnitude(p.q.scale_floor), false, {Rounding::away_from_zero, 0, 0}));
  }
  if (f.has_zero && p.q.zero_scale == ZeroScale::smallest) p.code_instead_of_zero = 1;
  if (f.has_zero && p.q.zero_scale == ZeroScale::one) p.code_instead_of_zero = code_of_one(f);
  if (f.has_zero && p.q.zero_scale == ZeroScale::eighth) p.code_instead_of_zero = encode(f, {1, -3, false}, false, {});
  if (p.q.scale_ceiling > 0.0f) {
    p.most_scale_code =
        static_cast<int32_t>(encode(f, exact_magnitude(p.q.scale_ceiling), false, {Rounding::toward_zero, 0, 0}));
  }
  p.has_tensor_factor = p.q.tensor_scale != TensorScale::none;
  // Scales that are drawn or cut, and directed roundings of fp32 ones, go to the core.
  const bool rare = is_stochastic(p.q.scale_rounding) || p.q.scale_rounding == Rounding::toward_zero ||
                    (p.spec.scale == Scale::fp32 && p.q.scale_rounding != Rounding::nearest_even);
  p.scale_path = ScalePath::scalar;
  if (p.q.soft_alpha > 0.0f) return;
  switch (family_of(p.q.scale_rule)) {
    case ScaleFamily::power:
      if (is_real(p.spec.scale)) return;
      if (p.q.exponent == Exponent::bits) return set_power_rule(p);
      if (p.has_tensor_factor) return;
      p.scale_path = ScalePath::power;
      p.rule_adds = float_rule_adds(p.q.scale_rule, p.spec.element, p.q.compute);
      p.rule_subtract = float_rule_offset;
      return;
    case ScaleFamily::variance:
      if (p.q.scale_add == 0.0f || (p.q.scale_add > 0x1p-60f && p.q.scale_add < 0x1p60f))
        p.scale_path = ScalePath::variance;
      return;
    case ScaleFamily::quotient:
      if (!rare && p.q.scale_rule != ScaleRule::ms_eden) p.scale_path = ScalePath::quotient;
      return;
    case ScaleFamily::trials:
      if (!rare && sums_trials(p)) p.scale_path = ScalePath::trials;
      return;
  }
}

// Whether a block's maximum is below 8 times its scale (nearest_log2: 6 * sqrt(2)): its index stays in the table.
bool is_below_8(ScaleRule rule) {
  return is_one_of(rule, {ScaleRule::floor, ScaleRule::ceil, ScaleRule::rceil, ScaleRule::even, ScaleRule::even_above,
                          ScaleRule::uos, ScaleRule::nearest_log2_amax, ScaleRule::floor_plus_one});
}

bool is_directed(Rounding r) {
  return r == Rounding::away_from_zero || r == Rounding::toward_positive || r == Rounding::toward_negative;
}

void choose_payload_path(QuantPlan& p) {
  const bool is_e8m0 = p.spec.scale == Scale::e8m0;
  const bool exact = p.q.arithmetic == Arithmetic::exact;
  const bool in_bf16 = p.q.compute == Compute::bf16 || p.q.payload_type == PayloadType::bf16;
  if (!p.q.has_scale()) {
    p.payload_path = p.q.prescale == 1.0f ? PayloadPath::none : PayloadPath::scalar;
  } else if (in_bf16) {  // under scales that are powers of two: is_known_to_quantisers
    p.payload_path =
        p.q.prescale == 1.0f && !is_directed(p.q.rounding) ? PayloadPath::power_in_bf16 : PayloadPath::scalar;
  } else if (is_e8m0 && !p.has_tensor_factor && p.q.scale_rule != ScaleRule::encode &&
             (exact || (p.q.prescale == 1.0f && !is_directed(p.q.rounding)))) {
    // One exact product in every order of operations; only fp32 underflow differs, and only directed roundings see it.
    p.payload_path = PayloadPath::power;
  } else if (p.q.scale_rule == ScaleRule::encode) {
    p.payload_path = exact ? PayloadPath::encode_exact : PayloadPath::encode;
  } else if (exact) {
    p.payload_path = PayloadPath::exact;
  } else {
    switch (p.q.order_of_payload()) {
      case PayloadOrder::of_arithmetic: break;
      case PayloadOrder::divide:
      case PayloadOrder::divide_global: p.payload_path = PayloadPath::divide; break;
      case PayloadOrder::reciprocal:
      case PayloadOrder::te:
      case PayloadOrder::vllm:
      case PayloadOrder::multiply_global: p.payload_path = PayloadPath::multiply; break;
      case PayloadOrder::divide_then_multiply: p.payload_path = PayloadPath::encode; break;
    }
  }
  // Payloads of more than 24 bits: rounded to odd they do not decide against draws of 32 bits.
  const bool is_long = p.payload_path == PayloadPath::exact || p.payload_path == PayloadPath::encode_exact ||
                       (p.payload_path == PayloadPath::power && p.q.prescale != 1.0f);
  if (is_stochastic(p.q.rounding) && p.q.random_bits == 32 && is_long) p.payload_path = PayloadPath::scalar;
}

}  // namespace

QuantPlan make_plan(const QuantizeCall& call) {
  QuantPlan p;
  p.spec = call.spec;
  p.q = resolve(call.spec);
  p.q.soft_alpha = call.soft_alpha;
  p.hadamard = call.hadamard;
  if (call.hadamard.size > 0) p.signs = hadamard_signs(call.hadamard, call.place.hadamard_signs());
  p.x = call.x;
  p.rows = call.x.rows;
  p.cols = hadamard_padded(call.hadamard, call.x.cols);
  p.row_offset = call.row_offset;
  p.geometry = geometry_of(call.spec, p.rows, p.cols);
  p.place = call.place;
  p.held_amax = call.held_amax;
  p.threads = call.threads;
  p.quantum_log2 = p.q.element.quantum_log2();
  p.largest_element = decode(p.q.element, p.q.element.largest_code);
  p.largest_power = power_of_two(p.q.element.max_exponent());
  p.is_directed = is_directed(p.q.rounding);
  p.prepares = p.q.compute == Compute::bf16 || p.q.negative_zero == NegativeZero::of_rounding ||
               p.q.negative_zero == NegativeZero::zeros;
  choose_scale_path(p);
  choose_payload_path(p);

  const Element e = call.spec.element;
  if ((e == Element::e2m1 || e == Element::e1m2) && !is_stochastic(p.q.rounding)) {
    p.code_path = CodePath::table;
    p.steps = e == Element::e2m1 ? 4.0f : 8.0f;
    p.clamp_index = p.payload_path != PayloadPath::power || !is_below_8(p.q.scale_rule) || p.q.scale_ceiling > 0.0f;
    std::memcpy(p.table, table_of(e, p.q.rounding).entry, sizeof p.table);
  } else if (e == Element::e2m1 && is_stochastic(p.q.rounding) && p.q.random_bits <= 16) {
    p.code_path = CodePath::stochastic_fp4;
  }
  return p;
}

}  // namespace fp4::cpu
