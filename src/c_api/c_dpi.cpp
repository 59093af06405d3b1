#include "src/c_api/fp4sim_dpi.h"
#include "src/golden/packed_operand.h"
#include "src/threads/float_environment.h"

namespace {

using namespace fp4;

constexpr int unknown = 2;

const ElementInfo* packed_element(const char* word) {
  const ElementInfo* row = find_row(element_table, word);
  return row != nullptr && is_packable(row->format) ? row : nullptr;
}

// A spec of these words alone, or 2.
int spec_of(const char* element, const char* scale, QuantSpec& spec) {
  const auto* e = packed_element(element);
  const auto* s = find_row(scale_table, scale);
  if (e == nullptr || s == nullptr) return unknown;
  spec.element = e->id;
  spec.scale = s->id;
  return 0;
}

}  // namespace

extern "C" {

int fp4sim_dpi_quantize(const char* element, const char* scale, const char* rounding, int random_bits, uint32_t draw,
                        uint32_t scale_code, uint32_t x, uint32_t* code) {
  const DefaultFloatEnvironment floats;
  QuantSpec spec;
  const auto* how = find_row(rounding_table, rounding);
  if (how == nullptr || spec_of(element, scale, spec) != 0) return unknown;
  spec.rounding = how->id;
  if (is_stochastic(how->id)) spec.random_bits = random_bits;
  if (const int n = spec.random_bits; n != 4 && n != 8 && n != 16 && n != 32) return unknown;
  if (spec.has_scale() && !is_real(spec.scale) && scale_code >> format_of(spec.scale).code_bits() != 0) return unknown;
  *code = element_code(resolve(spec), float_of(x), scale_code, {}, draw);
  return 0;
}

int fp4sim_dpi_scale(const char* element, const char* scale, const char* rule, uint32_t amax, uint32_t* scale_code) {
  const DefaultFloatEnvironment floats;
  QuantSpec spec;
  const auto* row = find_row(scale_rule_table, rule);
  if (row == nullptr || spec_of(element, scale, spec) != 0 || !spec.has_scale() || is_real(spec.scale)) return unknown;
  spec.scale_rule = row->id;
  if (!invalid_reason(spec).empty()) return unknown;
  const float x = float_of(amax);
  *scale_code = block_scale_code(resolve(spec), {&x, 1, 1, 1, 1, 1}, {}, 0);
  return 0;
}

int fp4sim_dpi_dot(const char* element, int k, const uint32_t* a, const uint32_t* b, int64_t* sum) {
  const auto* e = packed_element(element);
  if (e == nullptr || k < 0) return unknown;
  const PackedOperand x = {&e->format, nullptr, 0, a, nullptr}, y = {&e->format, nullptr, 0, b, nullptr};
  const int128 exact = integer_dot(x, y, 0, k);
  *sum = static_cast<int64_t>(exact);
  return *sum == exact ? 0 : unknown;
}

int fp4sim_dpi_step(const char* adder, const char* element, const char* scale, int block, int k, const uint32_t* a,
                    const uint32_t* b, const uint32_t* scale_a, const uint32_t* scale_b, uint32_t c, uint32_t* d) {
  const DefaultFloatEnvironment floats;
  QuantSpec spec;
  const auto* row = find_row(accumulator_table, adder);
  if (row == nullptr || block < 1 || k < 0 || spec_of(element, scale, spec) != 0 || is_real(spec.scale)) return unknown;
  const FloatFormat* scales = spec.has_scale() ? &format_of(spec.scale) : nullptr;
  const FloatFormat& format = format_of(spec.element);
  if (!takes(row->row, scales != nullptr, format)) return unknown;
  const PackedOperand x = {&format, scales, block, a, scale_a}, y = {&format, scales, block, b, scale_b};
  *d = bits_of(canonical(dot_of_any(row->row, x, y, 0, k, float_of(c))));
  return 0;
}
}
