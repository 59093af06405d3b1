// Operands that nobody thought of: every field of the spec drawn, values on and beside grid points at any exponent,
// with zeros, subnormals, infinities and NaNs among them, any layout and Hadamard. Expected values come from the
// reference.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string_view>

#include "src/backends/backends.h"
#include "src/cpu/quantize/engine_table.h"
#include "tests/support/backends_under_test.h"
#include "tests/support/filled_codes.h"
#include "tests/support/same_floats.h"
#include "tests/support/share.h"

namespace fp4 {
namespace {

using namespace test;

QuantSpec drawn_spec(Random& random) {
  constexpr int presets = static_cast<int>(std::size(preset_table));
  for (;;) {
    QuantSpec s = preset_table[pick(random, presets)].spec;
    for (const SpecField<QuantSpec>& field : quant_fields()) {
      if (field.words == nullptr || pick(random, 6) != 0) continue;
      const std::vector<std::string> words = field.words();
      const Json word = words[static_cast<size_t>(pick(random, static_cast<int>(words.size())))];
      field.set(s, {word, field.name});
    }
    if (pick(random, 3) == 0) {
      const char* block = one_of(random, {"8", "16", "32", "64", "128", "row", "tensor", "8x8", "16x16", "32x32"});
      s.block = quant_spec_from_words(std::string("mxfp4,block=") + block).block;
    }
    if (pick(random, 3) == 0) s.random_bits = one_of(random, {4, 8, 16, 32});
    if (pick(random, 8) == 0) s.prescale = 0.75f;
    if (pick(random, 12) == 0) s.scale_floor = one_of(random, {0x1p-9f, 0x1.4p-3f, 1.0f});
    if (pick(random, 12) == 0) s.scale_ceiling = one_of(random, {0x1.4p-3f, 1.5f, 0x1p6f});
    if (s.scale_rule == ScaleRule::quest_floor) s.scale_add = one_of(random, {0.0f, 1e-8f, 0.3f, 0x1p-80f});
    const bool is_given = s.tensor_scale == TensorScale::given;
    s.factor = !is_given ? 0.0f
                         : std::ldexp(significand(random),
                                      pick(random, 4) == 0 ? pick(random, 250) - 140 : pick(random, 16) - 8);
    if (invalid_reason(s).empty()) return s;
  }
}

// Values of one operand: around 2^exponent, within `spread` binades of it.
struct Values {
  int exponent;
  int spread;
  int specials;  // one value in so many is infinite or NaN; 0: none
};

float drawn_value(const Values& v, Random& random) {
  if (v.specials > 0 && pick(random, v.specials) == 0) {
    return one_of(random, {INFINITY, -INFINITY, NAN});
  }
  const int kind = pick(random, 10);
  const float sign = pick(random, 2) == 0 ? 1.0f : -1.0f;
  if (kind == 0) return sign * 0.0f;
  const int exponent = std::clamp(v.exponent - pick(random, v.spread + 1), -149, 127);
  if (kind < 4) return sign * std::ldexp(significand(random), exponent);
  // An eighth of a grid step, or few ulps beside one.
  const float grid = std::ldexp(1.0f + static_cast<float>(pick(random, 32)) / 32.0f, exponent);
  const auto off = kind < 7 ? 0 : pick(random, 5) - 2;
  const float x = float_of(bits_of(grid) + static_cast<uint32_t>(off));
  return sign * (is_finite(x) ? x : grid);
}

// A matrix and what its elements lie in.
struct Drawn {
  std::vector<float> data;
  QuantizeCall call;
};

HadamardSpec drawn_hadamard(Random& random) {
  if (pick(random, 3) != 0) return {};
  HadamardSpec h;
  h.size = one_of(random, hadamard_sizes);
  h.signs = one_of(random, hadamard_signs_table).id;
  h.normalise = one_of(random, hadamard_normalise_table).id;
  return h;
}

Drawn drawn_operand(const QuantSpec& spec, int64_t rows, int64_t k, const HadamardSpec& h, Random& random) {
  const Values values = {pick(random, 2) == 0 ? pick(random, 12) - 6 : pick(random, 270) - 145,
                         one_of(random, {0, 2, 5, 12, 40}), pick(random, 6) == 0 ? 1 + pick(random, 300) : 0};
  Drawn d;
  const int64_t pad = one_of(random, {0, 0, 0, 1, 16});
  const bool transposed = pick(random, 3) == 0;
  const int64_t step = pick(random, 12) == 0 ? 2 : 1;
  const int64_t inner = transposed ? rows : k;
  const int64_t stride = inner * step + pad;
  d.data.assign(static_cast<size_t>((transposed ? k : rows) * stride + 8), NAN);
  d.call.x = {d.data.data(), rows, k, transposed ? step : stride, transposed ? stride : step};
  const bool has_quiet_rows = pick(random, 4) == 0;
  for (int64_t r = 0; r < rows; ++r) {
    const bool is_zero = has_quiet_rows && pick(random, 3) == 0;
    for (int64_t i = 0; i < k; ++i) {
      const float x = is_zero ? 0.0f : drawn_value(values, random);
      d.data[static_cast<size_t>(r * d.call.x.row_stride + i * d.call.x.col_stride)] = x;
    }
  }
  d.call.spec = spec;
  d.call.hadamard = h;
  d.call.place = {random(), static_cast<uint32_t>(pick(random, 7)), static_cast<uint32_t>(pick(random, 5))};
  if (spec.tensor_scale == TensorScale::hold) {
    d.call.held_amax = one_of(random, {0.0f, 1.0f, std::ldexp(significand(random), values.exponent / 2)});
  }
  return d;
}

int64_t drawn_k(const QuantSpec& spec, Random& random) {
  const int64_t k = pick(random, 5) == 0 ? 500 + pick(random, 700) : 1 + pick(random, 200);
  const int64_t block = larger<int64_t>(spec.block.size, 16);
  return spec.ragged == Ragged::refuse || pick(random, 2) == 0 ? (k + block - 1) / block * block : k;
}

void compare_operand(const Drawn& d, const std::string& what) {
  static const std::vector<const Backend*> backends = backends_under_test();
  Quantized expected;
  reference_backend().quantize(d.call, expected);
  std::vector<float> expected_floats(static_cast<size_t>(expected.rows * expected.cols), -7.0f);
  reference_backend().dequantize(expected, expected_floats.data(), 1);
  for (const Backend* fast : backends) {
    if (!fast->supports_quantize(d.call)) continue;
    Quantized got;
    got.codes.assign(7, 0xAA);  // storage is reused
    fast->quantize(d.call, got);
    std::vector<float> floats(expected_floats.size(), -7.0f);
    if (fast->supports_dequantize(expected)) fast->dequantize(expected, floats.data(), 1);
    INFO(fast->name() << " " << what << to_json(d.call.spec).dump() << " " << to_json(d.call.hadamard).dump() << " "
                      << d.call.x.rows << " x " << d.call.x.cols << " strides " << d.call.x.row_stride << " "
                      << d.call.x.col_stride);
    CHECK(got.codes == expected.codes);
    CHECK(got.scales == expected.scales);
    CHECK(same_floats(got.real_scales, expected.real_scales));
    CHECK(same_floats(got.tensor_scale, expected.tensor_scale));
    CHECK(bits_of(got.amax) == bits_of(expected.amax));
    CHECK((!fast->supports_dequantize(expected) || same_floats(floats, expected_floats)));
  }
}

void compare_product(const Drawn& a, const Drawn& b, const std::string& what, Random& random) {
  static const std::vector<const Backend*> backends = backends_under_test();
  static const Dispatcher reference("reference");
  constexpr int named = static_cast<int>(std::size(accumulator_table));
  const AccumulatorInfo& row = accumulator_table[pick(random, named)];
  if (!invalid_reason(row.row, a.call.spec, b.call.spec).empty()) return;
  const int64_t stride = b.call.x.rows + pick(random, 3);
  std::vector<float> expected(static_cast<size_t>(a.call.x.rows * stride), -7.0f);
  const std::vector<float> poison = expected;
  MultiplyCall call;
  call.a = a.call;
  call.b = b.call;
  call.options.accumulator = row.row;
  call.options.hadamard_divisor = a.call.hadamard.product_divisor();
  call.c = expected.data();
  call.c_stride = stride;
  reference.multiply(call);
  for (const Backend* fast : backends) {
    std::vector<float> got = poison;
    call.c = got.data();
    if (!fast->multiply(call)) continue;
    INFO(fast->name() << " " << what << row.name << " " << to_json(a.call.spec).dump() << " | "
                      << to_json(b.call.spec).dump() << " " << to_json(a.call.hadamard).dump() << " " << a.call.x.rows
                      << " x " << b.call.x.rows << " x " << a.call.x.cols);
    CHECK(same_floats(got, expected));
  }
}

void compare_drawn(int count, uint32_t seed) {
  for (int i = 0; i < count; ++i) {
    const uint32_t own_seed = seed + static_cast<uint32_t>(i);
    Random random(own_seed);
    const QuantSpec spec = drawn_spec(random);
    const HadamardSpec h = drawn_hadamard(random);
    const int64_t k = drawn_k(spec, random);
    const Drawn a = drawn_operand(spec, 1 + pick(random, 40), k, h, random);
    const std::string what = "seed " + std::to_string(own_seed) + " ";
    compare_operand(a, what);
    if (pick(random, 3) != 0) continue;
    const QuantSpec other = pick(random, 2) == 0 ? spec : drawn_spec(random);
    if (other.ragged == Ragged::refuse && k % larger<int64_t>(other.block.size, 1) != 0) continue;
    compare_product(a, drawn_operand(other, 1 + pick(random, 20), k, h, random), what, random);
  }
}

TEST_CASE("drawn operands, which reach every engine", "[quick]") {
  cpu::quantize_uses.reset();
  compare_drawn(1500, 1);
  const std::vector<const Backend*> backends = backends_under_test();
  const bool has_all = std::any_of(backends.begin(), backends.end(),
                                   [](const Backend* b) { return std::string_view(b->name()) == "avx512"; });
  const cpu::PanelCounts counts = cpu::quantize_uses.read();
  for (const cpu::QuantizeEngineInfo& row : cpu::quantize_engine_table) {
    const cpu::UseCount& count = counts[static_cast<size_t>(row.id)];
    INFO(row.name << ": offered " << count.offered << " panels, took " << count.taken);
    CHECK(count.taken <= count.offered);
    if (has_all && test::share() == 1) CHECK(count.taken > 0);
  }
}

TEST_CASE("many drawn operands", "[exhaustive]") { compare_drawn(60000, 1000000); }

}  // namespace
}  // namespace fp4
