// Every fast backend against the reference: same bits on odd shapes, boundary-dense data and poisoned outputs, or a
// refusal, which is counted and shown.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "tests/support/backends_under_test.h"
#include "tests/support/same_floats.h"
#include "tests/support/share.h"

namespace fp4 {
namespace {

// Data that finds rounding bugs: Gaussian values hardly ever lie on a code boundary.
enum class Data { gaussian, boundaries, all_exponents, zeros, tiny, huge };
constexpr Data all_data[] = {Data::gaussian, Data::boundaries, Data::all_exponents,
                             Data::zeros,    Data::tiny,       Data::huge};

float near(float x, uint32_t random) {  // within 2 ulp
  return float_of(bits_of(x) + static_cast<uint32_t>(static_cast<int>(random % 5) - 2));
}

std::vector<float> make_data(Data kind, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> data(static_cast<size_t>(count));
  for (float& x : data) {
    const uint32_t word = static_cast<uint32_t>(random());
    switch (kind) {
      case Data::gaussian: x = normal(random); break;
      case Data::boundaries: {  // quarters of a grid step, times powers of two, two ulp around; tied to no scale
        const float grid = static_cast<float>(static_cast<int>(word % 129) - 64) / 8.0f;
        x = std::ldexp(grid, static_cast<int>(random() % 4) - 2);
        if (x != 0.0f && word % 3 == 0) x = near(x, static_cast<uint32_t>(random()));
        break;
      }
      case Data::all_exponents: {
        uint32_t pattern = word;
        if (random() % 4 != 0) pattern = (word & 0x807FFFFFu) | (100 + static_cast<uint32_t>(random() % 60)) << 23;
        x = float_of(pattern);
        if (!is_finite(x) && random() % 20 != 0) x = 0.0f;
        break;
      }
      case Data::zeros:
        x = word % 3 != 0 ? 0.0f : -0.0f;
        if (random() % 7 == 0) x = normal(random) * 1e-39f;
        break;
      case Data::tiny: x = normal(random) * 1e-37f; break;
      case Data::huge: x = normal(random) * 1e36f; break;
    }
  }
  return data;
}

struct Shape {
  int64_t m, n, k;
};
constexpr Shape shapes[] = {{1, 31, 32}, {33, 17, 100}, {20, 48, 33}, {64, 40, 160}};

// What became of the calls to one backend.
struct Counted {
  const Backend* fast;
  int compared = 0;
  int declined = 0;
  int wrong = 0;
};

std::vector<Counted> backends_to_count() {
  std::vector<Counted> list;
  for (const Backend* fast : test::backends_under_test()) list.push_back({fast});
  return list;
}

void report(const std::vector<Counted>& backends, const char* what) {
  for (const Counted& b : backends) {
    CHECK(b.wrong == 0);
    WARN(b.fast->name() << ": " << b.compared << ' ' << what << " compared, " << b.declined << " declined");
  }
}

QuantizeCall operand(const std::vector<float>& data, int64_t rows, int64_t k, bool transposed, const QuantSpec& spec,
                     const HadamardSpec& hadamard) {
  QuantizeCall call;
  call.x = transposed ? view_of(data.data(), k, rows).transposed() : view_of(data.data(), rows, k);
  call.spec = spec;
  call.hadamard = hadamard;
  call.place = {5, 3, 2};
  return call;
}

// The reference, by far the slowest, goes once for all of them.
void compare_products(std::vector<Counted>& backends, const char* words_a, const char* words_b,
                      const Accumulator& accumulator) {
  const Dispatcher reference("reference");
  const QuantSpec spec_a = quant_spec_from_words(words_a);
  const QuantSpec spec_b = quant_spec_from_words(words_b);
  uint32_t seed = 1;
  for (const int size : {0, 16, 64}) {
    const HadamardSpec hadamard = {size, HadamardSigns::per_step,
                                   size == 64 ? HadamardNormalise::fold : HadamardNormalise::sqrt};
    for (const Data kind : all_data) {
      for (const Shape& shape : shapes) {
        const bool transposed_a = seed % 2 != 0;
        const bool transposed_b = seed / 2 % 2 != 0;
        seed += 2;
        if (!test::next_case_runs(test::large_share())) continue;
        const std::vector<float> a = make_data(kind, shape.m * shape.k, seed - 2);
        const std::vector<float> b = make_data(kind, shape.n * shape.k, seed - 1);
        const int64_t stride = shape.n + 3;
        std::vector<float> expected(static_cast<size_t>(shape.m * stride), -7.0f);
        const std::vector<float> poison = expected;
        MultiplyCall call;
        call.a = operand(a, shape.m, shape.k, transposed_a, spec_a, hadamard);
        call.b = operand(b, shape.n, shape.k, transposed_b, spec_b, hadamard);
        call.b.place = call.a.place.second_operand();
        call.options.accumulator = accumulator;
        call.options.hadamard_divisor = hadamard.product_divisor();
        call.c = expected.data();
        call.c_stride = stride;
        reference.multiply(call);
        for (Counted& backend : backends) {
          std::vector<float> got = poison;
          call.c = got.data();
          if (!backend.fast->multiply(call)) {
            ++backend.declined;
            continue;
          }
          ++backend.compared;
          if (test::same_floats(got, expected)) continue;
          if (++backend.wrong > 20) continue;
          size_t i = 0;
          while (bits_of(got[i]) == bits_of(expected[i])) ++i;
          UNSCOPED_INFO(backend.fast->name()
                        << " " << words_a << " | " << words_b << " hadamard " << size << " data "
                        << static_cast<int>(kind) << " shape " << shape.m << "x" << shape.n << "x" << shape.k << " at "
                        << i << ": got " << std::hex << bits_of(got[i]) << " expected " << bits_of(expected[i]));
        }
      }
    }
  }
}

constexpr const char* specs[] = {
    "mxfp4",
    "mxfp4,scale_rule=ceil",
    "mxfp4,scale_rule=rceil",
    "mxfp4,scale_rule=even",
    "mxfp4,scale_rule=uos",
    "mxfp4,scale_rule=nearest_log2",
    "mxfp4,scale_rule=quest_floor",
    "mxfp4,block=8,rounding=nearest_away",
    "mxfp4,block=16,rounding=toward_positive",
    "mxfp4,block=64,rounding=toward_negative",
    "mxfp4,block=128,rounding=away_from_zero",
    "mxfp4,rounding=nearest_toward_zero,negative_zero=drop",
    "mxfp4,rounding=toward_zero,prescale=0.75",
    "mxfp4,rounding=stochastic",
    "mxfp4,rounding=stochastic,random_bits=4,scale_rule=rceil",
    "mxfp4,rounding=stochastic,random_bits=16,prescale=0.75",
    "mxfp4,rounding=stochastic,random_bits=32",
    "mxfp4,rounding=stochastic_midpoint",
    "mxfp4,rounding=stochastic_truncated,prescale=0.75",
    "mxfp4,nonfinite=saturate",
    "mxfp4,zero_block=limit",
    "mxfp4,scale_floor=1",
    "mxfp4,element=e1m2",
    "mxfp4,element=e1m2,scale_rule=ceil",
    "mxfp4,element=e3m0",
    "mxfp4,element=e2m3,rounding=stochastic",
    "nvfp4",
    "nvfp4,rounding=stochastic",
    "nvfp4,rounding=stochastic,random_bits=32",
    "nvfp4,scale=fp32,rounding=toward_positive,prescale=0.75",
    "nvfp4,scale=fp32,rounding=stochastic_midpoint,random_bits=32",
    "graphcore_2509_encode,scale=fp32,rounding=stochastic",
    "graphcore_2509_encode,rounding=stochastic_truncated,random_bits=32",
    "nvfp4,arithmetic=divide",
    "nvfp4,arithmetic=reciprocal,rounding=stochastic_midpoint,random_bits=16",
    "nvfp4,tensor_scale=none,scale_rounding=toward_positive",
    "nvfp4,scale_rounding=stochastic,zero_scale=one",
    "nvfp4,rounding=away_from_zero,prescale=0.75",
    "nvfp4,scale_rule=mse",
    "te_nvfp4",
    "te_nvfp4,rounding=stochastic",
    "te_nvfp4,element=e4m3",
    "torchao_nvfp4",
    "fouroversix",
    "ue5m3fp4",
    "ue5m3fp4,scale=ue5m3_61440,arithmetic=te,zero_scale=one,tensor_scale=hold",
    "ue5m3fp4,scale=ue5m3_122880,nonfinite=saturate",
    "nvfp4,scale=ue5m2,scale_rule=floor",
    "nvfp4,scale=ue3m4,scale_rule=nearest_log2",
    "nvfp4,scale=ue2m5,scale_rule=even",
    "nvfp4,scale=ue1m6",
    "nvfp4,scale=bf16",
    "nvfp4,scale=fp32",
    "nvfp4,scale=fp32,block=row,tensor_scale=none",
    "nvfp4,scale=fp32,block=tensor,tensor_scale=none,element=e1m2",
    "nvfp4,scale=fp32,block=tensor,tensor_scale=none,element=e3m0,rounding=stochastic",
    "graphcore_2509_encode",
    "graphcore_2509_encode,arithmetic=divide,rounding=stochastic,random_bits=16",
    "mxfp4,scale_rule=encode",
    "mxfp4,scale_rule=amax",
    "mxfp4,tensor_scale=current",
    "mxfp4,tensor_scale=current,scale_rule=nearest_log2",
    "mxfp4,block=32x32",
    "mxfp4,block=8x8,rounding=stochastic",
    "nvfp4,block=16x16,arithmetic=te",
    "nvfp4,block=64x64,nonfinite=saturate",
    "mxfp4,block=32x32,scale_rule=quest_floor",
    "nvfp4,block=8x8,scale_rule=mse",
    "nvfp4,block=8x8,scale_rule=mse,scale_rounding=stochastic,random_bits=32",
    "nvfp4,block=16x16,scale_rule=four_over_six,scale=fp32,scale_rounding=toward_positive",
    "fouroversix,block=row",
    "fouroversix,block=tensor,rounding=stochastic",
    "mxfp4,block=row,scale_rule=quest_nearest,nonfinite=saturate",
    "mxfp4,arithmetic=te,rounding=away_from_zero",
    "mxfp4,arithmetic=divide,prescale=0.75",
};

constexpr const char* unscaled[] = {"fp32",
                                    "bf16",
                                    "fp16",
                                    "bf16,rounding=stochastic,random_bits=16",
                                    "fp16,rounding=stochastic",
                                    "mxfp8,scale=none",
                                    "mxfp4,scale=none,rounding=nearest_away",
                                    "mxfp8,scale=none,element=e5m2,rounding=stochastic,random_bits=32"};

TEST_CASE("fast products equal the reference bit for bit", "[quick]") {
  std::vector<Counted> backends = backends_to_count();
  for (const char* words : specs) compare_products(backends, words, words, fp32_block);
  compare_products(backends, "mxfp4,block=16", "mxfp4,rounding=stochastic", fp32_block);
  compare_products(backends, "mxfp4,element=e1m2", "mxfp4,prescale=0.75,block=64", fp32_block);
  for (const char* words : unscaled) {
    compare_products(backends, words, words, fp32_block);
    compare_products(backends, words, "mxfp4", fp32_block);
  }
  for (const char* words :
       {"mxfp4", "mxfp8", "nvfp4,rounding=stochastic", "nvfp4,scale=fp32,prescale=0.75", "mxfp8,element=e5m2",
        "mxfp6_e3m2,block=16", "mxfp4,block=tensor", "te_nvfp4", "nvfp4,tensor_scale=outer128",
        "mxfp8,tensor_scale=outer128,block=64", "graphcore_2509_encode"}) {
    const FloatFormat& element = format_of(quant_spec_from_words(words).element);
    for (const AccumulatorInfo& info : accumulator_table)
      if (takes(info.row, true, element)) compare_products(backends, words, words, info.row);
    compare_products(backends, words, "ue5m3fp4,block=16x16", fp32_block);
    compare_products(backends, words, "nvfp4,tensor_scale=outer128", fp32_block);
  }
  report(backends, "products");
}

// Codes, scales, tensor scales, decoded values and the gemm of stored operands.
void compare_stored(std::vector<Counted>& backends, const char* words) {
  const Backend& reference = reference_backend();
  const QuantSpec spec = quant_spec_from_words(words);
  uint32_t seed = 1000;
  for (const int size : {0, 32}) {
    const HadamardSpec hadamard = {size, HadamardSigns::fixed, HadamardNormalise::sqrt};
    for (const Data kind : all_data) {
      for (const Shape& shape : shapes) {
        ++seed;
        if (!test::next_case_runs(test::large_share())) continue;
        const std::vector<float> x = make_data(kind, shape.m * shape.k, seed);
        QuantizeCall call = operand(x, shape.m, shape.k, seed % 2 == 0, spec, hadamard);
        call.row_offset = spec.tensor_scale == TensorScale::none && spec.block.kind == BlockKind::vector ? 3 : 0;
        Quantized expected;
        reference.quantize(call, expected);
        std::vector<float> expected_decoded(static_cast<size_t>(expected.rows * expected.cols), -7.0f);
        reference.dequantize(expected, expected_decoded.data(), 1);
        std::vector<float> expected_c(static_cast<size_t>(expected.rows * expected.rows), -7.0f);
        const GemmOptions options;
        reference.gemm(expected, expected, options, expected_c.data(), expected.rows);
        for (Counted& backend : backends) {
          const Backend& fast = *backend.fast;
          if (!fast.supports_quantize(call)) {
            ++backend.declined;
            continue;
          }
          Quantized got;
          got.codes.assign(7, 0xAA);  // poison: storage is reused
          got.scales.assign(5000, 0xAA);
          fast.quantize(call, got);
          std::vector<float> decoded(expected_decoded.size(), -7.0f);
          fast.dequantize(expected, decoded.data(), 1);
          std::vector<float> c(expected_c.size(), -7.0f);
          const bool multiplies = fast.supports_gemm(spec, spec, options);
          if (multiplies) {
            fast.gemm(expected, expected, options, c.data(), expected.rows);
          } else {
            ++backend.declined;
          }
          ++backend.compared;
          const bool same = got.codes == expected.codes && got.scales == expected.scales &&
                            test::same_floats(got.real_scales, expected.real_scales) &&
                            test::same_floats(got.tensor_scale, expected.tensor_scale) &&
                            bits_of(got.amax) == bits_of(expected.amax);
          const bool same_products = !multiplies || test::same_floats(c, expected_c);
          if (same && test::same_floats(decoded, expected_decoded) && same_products) continue;
          if (++backend.wrong > 20) continue;
          UNSCOPED_INFO(fast.name() << " " << words << " hadamard " << size << " data " << static_cast<int>(kind)
                                    << " shape " << shape.m << "x" << shape.k << " codes "
                                    << (got.codes == expected.codes) << " scales " << (got.scales == expected.scales)
                                    << test::same_floats(got.real_scales, expected.real_scales) << " tensor "
                                    << test::same_floats(got.tensor_scale, expected.tensor_scale) << " decoded "
                                    << test::same_floats(decoded, expected_decoded) << " gemm " << same_products);
        }
      }
    }
  }
}

TEST_CASE("fast quantisers, decoders and stored gemms equal the reference", "[quick]") {
  std::vector<Counted> backends = backends_to_count();
  for (const char* words : specs) compare_stored(backends, words);
  for (const char* words : unscaled) compare_stored(backends, words);
  for (const char* words : {"mxfp8", "mxfp6_e3m2", "mxfp8,element=e5m2,rounding=stochastic",
                            "nvfp4,tensor_scale=outer128", "te_nvfp4,tensor_scale=outer128,block=64"}) {
    compare_stored(backends, words);
  }
  report(backends, "operands");
}

// A scale of few ulps times the quantum of a product would lose bits, although its product with a huge one is normal.
TEST_CASE("products of huge and of subnormal real scales equal the reference", "[quick]") {
  std::mt19937 random(5);
  std::vector<float> huge(9 * 96);
  std::vector<float> subnormal(17 * 96);
  for (float& x : huge) x = random() % 3 == 0 ? 0.0f : std::ldexp(static_cast<float>(random() % 4096) - 2048.0f, 112);
  for (float& x : subnormal) x = float_of((random() & 0x80000000u) | random() % 4096);
  for (const Backend* fast : test::backends_under_test()) {
    for (const char* words :
         {"mxfp4,scale=fp32,scale_rule=amax", "mxfp4,scale=fp32,scale_rule=amax,block=8",
          "mxfp4,scale=fp32,scale_rule=amax,block=row", "mxfp8,scale=fp32,scale_rule=amax", "mxfp4"}) {
      for (const AccumulatorInfo& accumulator : accumulator_table) {
        for (const bool swapped : {false, true}) {
          MultiplyCall call;
          call.a.x = view_of((swapped ? subnormal : huge).data(), swapped ? 17 : 9, 96);
          call.b.x = view_of((swapped ? huge : subnormal).data(), swapped ? 9 : 17, 96);
          call.a.spec = call.b.spec = quant_spec_from_words(words);
          call.options.accumulator = accumulator.row;
          Quantized a;
          Quantized b;
          reference_backend().quantize(call.a, a);
          reference_backend().quantize(call.b, b);
          if (!takes(accumulator.row, true, format_of(a.spec.element))) continue;
          if (!fast->supports_gemm(a.spec, b.spec, call.options)) continue;
          std::vector<float> got(9 * 17, -7.0f);
          std::vector<float> expected = got;
          reference_backend().gemm(a, b, call.options, expected.data(), call.b.x.rows);
          call.c = got.data();
          call.c_stride = call.b.x.rows;
          if (!fast->multiply(call)) continue;
          INFO(fast->name() << " " << words << " " << accumulator.name << " " << swapped);
          CHECK(test::same_floats(got, expected));
        }
      }
    }
  }
}

TEST_CASE("fast Hadamards equal the reference", "[quick]") {
  for (const Backend* fast : test::backends_under_test()) {
    for (const int cols : {300, 512})
      for (const int size : hadamard_sizes) {
        for (const bool inverse : {false, true}) {
          for (const Data kind : {Data::gaussian, Data::all_exponents, Data::zeros}) {
            for (const HadamardSigns signs : {HadamardSigns::none, HadamardSigns::per_step}) {
              const HadamardSpec h = {size, signs,
                                      kind == Data::zeros ? HadamardNormalise::fold : HadamardNormalise::sqrt};
              std::vector<float> x = make_data(kind, 33 * cols, 9);
              if (kind == Data::gaussian) {  // the sign of a NaN must not leave: signs come last in the inverse
                x[40] = std::numeric_limits<float>::quiet_NaN();
                x[1000] = std::numeric_limits<float>::infinity();
                x[1020] = -std::numeric_limits<float>::infinity();
              }
              std::vector<float> got(static_cast<size_t>(33 * hadamard_padded(h, cols)), -7.0f);
              std::vector<float> expected = got;
              fast->hadamard(view_of(x.data(), 33, cols), h, {1, 2, 3}, inverse, got.data(), 1);
              reference_backend().hadamard(view_of(x.data(), 33, cols), h, {1, 2, 3}, inverse, expected.data(), 1);
              CHECK(test::same_floats(got, expected));
            }
          }
        }
      }
  }
}

}  // namespace
}  // namespace fp4
