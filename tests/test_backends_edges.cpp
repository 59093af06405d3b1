// Where a fast path could go wrong: payloads within two ulp of code boundaries and stochastic thresholds, maxima within
// four ulp of binades and of scale-code midpoints, scale products at both ends of fp32 and at the edges of the kernels'
// range conditions, and any number of threads. Expected values come from the reference.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/gpu/gpu_backend.h"
#include "tests/support/backends_under_test.h"
#include "tests/support/filled_codes.h"
#include "tests/support/same_floats.h"

namespace fp4 {
namespace {

float moved(float x, int ulps) { return float_of(bits_of(x) + static_cast<uint32_t>(ulps)); }

// Rows of blocks. The first element fixes the maximum: a power of two, or a scale-code midpoint times 6, give or take
// four ulp. The others sit on boundaries of the scaled grid (quarters of a unit, or stochastic thresholds given the
// draw), give or take two ulp.
std::vector<float> boundary_rows(const QuantSpec& spec, RandomPlace place, int64_t rows, int64_t k, uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  const Quantizer q = resolve(spec);
  const int block = spec.block.kind == BlockKind::vector ? spec.block.size : 32;
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k0 = 0; k0 < k; k0 += block) {
      const float significands[] = {1.0f, 1.5f, 1.75f, 1.8125f, 1.0625f * 1.5f, 1.1875f * 1.5f, 1.9375f, 1.0606601f};
      float amax = std::ldexp(significands[pick(8)], pick(24) - 12);
      if (pick(16) == 0) amax = std::ldexp(amax, pick(2) == 0 ? -120 : 110);
      amax = moved(amax, pick(9) - 4);
      BlockView alone = {&amax, 0, 1, 1, 1, block};
      const uint32_t scale_code = block_scale_code(q, alone, {}, 0);
      const float s = scale_value(q, scale_code);
      for (int64_t i = k0; i < std::min(k, k0 + block); ++i) {
        float& out = x[static_cast<size_t>(r * k + i)];
        if (i == k0) {
          out = amax;
          continue;
        }
        float u = static_cast<float>(pick(25)) * 0.25f;
        if (spec.element == Element::e3m0) u *= pick(2) == 0 ? 0.5f : 2.0f;  // its boundaries: 0.125 to 12
        if (is_stochastic(spec.rounding) && pick(2) == 0) {
          // up when rne(t) + r >= 2^n: t near 2^n - r, and half a unit beside it
          const uint32_t draw = random_draw(place, static_cast<uint64_t>(r * k + i), spec.random_bits);
          const float gaps[][2] = {{0, 0.5f}, {0.5f, 0.5f}, {1, 0.5f}, {1.5f, 0.5f}, {2, 1}, {3, 1}, {4, 2}};
          const float* gap = gaps[pick(7)];
          const double n = std::ldexp(1.0, spec.random_bits);
          const double t = (n - static_cast<double>(draw) + 0.5 * (pick(3) - 1)) / n;
          u = static_cast<float>(static_cast<double>(gap[0]) + static_cast<double>(gap[1]) * t);
        }
        float v = u * s / spec.prescale;
        if (v != 0.0f && is_finite(v)) v = moved(v, pick(5) - 2);
        if (!is_finite(v) || v > amax) v = amax;
        out = pick(2) == 0 ? v : -v;
      }
    }
  }
  return x;
}

constexpr const char* edge_specs[] = {"mxfp4",
                                      "mxfp4,scale_rule=rceil",
                                      "mxfp4,scale_rule=even",
                                      "mxfp4,scale_rule=uos",
                                      "mxfp4,scale_rule=nearest_log2",
                                      "mxfp4,rounding=nearest_away",
                                      "mxfp4,rounding=toward_negative",
                                      "mxfp4,rounding=stochastic",
                                      "mxfp4,rounding=stochastic,random_bits=4,prescale=0.75",
                                      "mxfp4,rounding=stochastic,random_bits=16",
                                      "mxfp4,rounding=stochastic,random_bits=32",
                                      "mxfp4,rounding=stochastic,random_bits=32,prescale=0.75",
                                      "mxfp4,rounding=stochastic_midpoint,random_bits=32,prescale=0.75",
                                      "mxfp4,rounding=stochastic_truncated,random_bits=32,prescale=0.75",
                                      "mxfp8,rounding=stochastic,random_bits=32,prescale=0.75",
                                      "mxfp4,rounding=stochastic_midpoint,prescale=0.75",
                                      "mxfp4,rounding=stochastic_midpoint,random_bits=16",
                                      "mxfp4,rounding=stochastic_truncated,random_bits=16,prescale=0.75",
                                      "ue5m3fp4",
                                      "ue5m3fp4,rounding=stochastic",
                                      "ue5m3fp4,rounding=stochastic,random_bits=16",
                                      "ue5m3fp4,rounding=stochastic_midpoint,random_bits=16",
                                      "ue5m3fp4,arithmetic=te,rounding=stochastic,random_bits=16",
                                      "ue5m3fp4,scale_rule=encode,rounding=stochastic,random_bits=16",
                                      "ue5m3fp4,rounding=stochastic,random_bits=32",
                                      "ue5m3fp4,rounding=stochastic_midpoint,random_bits=32,prescale=0.75",
                                      "ue5m3fp4,rounding=stochastic_truncated,random_bits=32",
                                      "ue5m3fp4,element=e4m3,rounding=stochastic,random_bits=32",
                                      "ue5m3fp4,arithmetic=te",
                                      "ue5m3fp4,arithmetic=divide,rounding=stochastic",
                                      "nvfp4",
                                      "nvfp4,arithmetic=reciprocal",
                                      "nvfp4,scale_rule=four_over_six",
                                      "nvfp4,scale_rule=mse",
                                      "nvfp4,scale_rule=ms_eden",
                                      "mxfp4,arithmetic=multiply,tensor_scale=outer128,factor_format=mantissa8",
                                      "nvfp4,scale_rule=ms_eden,nonfinite=saturate,rounding=stochastic",
                                      "ue5m3fp4,scale_rule=encode",
                                      "mxfp4,scale_rule=quest_nearest",
                                      "mxfp8",
                                      "mxfp8,rounding=stochastic",
                                      "mxfp6_e3m2",
                                      "mxfp4,element=e1m2",
                                      "mxfp4,element=e3m0",
                                      "mxfp4,element=e3m0,rounding=stochastic",
                                      "ue5m3fp4,element=e3m0",
                                      "ue5m3fp4,element=e3m0,prescale=0.75",
                                      "nvfp4,tensor_scale=none,scale=fp32,element=e3m0",
                                      "nvfp4,tensor_scale=none,scale=fp32",
                                      "nvfp4,tensor_scale=none,scale=bf16,prescale=0.75",
                                      "nvfp4,tensor_scale=none,scale=fp32,element=e1m2",
                                      "nvfp4,tensor_scale=none,scale=fp32,rounding=toward_zero",
                                      "vllm_nvfp4",
                                      "vllm_nvfp4,rounding=stochastic",
                                      "vllm_nvfp4,tensor_scale=19",
                                      "compressed_tensors_nvfp4",
                                      "compressed_tensors_nvfp4,factor_format=bf16",
                                      "compressed_tensors_mxfp4",
                                      "modelopt_nvfp4",
                                      "modelopt_mxfp4",
                                      "torchao_nvfp4",
                                      "alto_nvfp4",
                                      "ggml_nvfp4",
                                      "ggml_mxfp4",
                                      "mlx_mxfp4",
                                      "mlx_nvfp4",
                                      "mlx_nvfp4_global",
                                      "mlx_nvfp4_global,payload=divide_then_multiply",
                                      "pytorch_mxfp4",
                                      "trainium3_mxfp8",
                                      "mxfp4,scale_rule=even_above",
                                      "mxfp4,scale_rule=nearest_log2_amax",
                                      "mxfp4,scale_rule=floor_plus_one",
                                      "fbgemm_mx4_ceil",
                                      "fbgemm_mx4_even",
                                      "fbgemm_mx4_nearest",
                                      "quartet_mxfp4",
                                      "microxcaling_even_bf16",
                                      "microxcaling_floor",
                                      "te_46_mae",
                                      "flashinfer_46_mae_fast",
                                      "fouroversix_code"};

// A device names fewer words than the vectors of the processor, which take all that stand here.
bool is_declined(const Backend& fast, const QuantizeCall& call) {
  const bool takes = fast.supports_quantize(call);
  CHECK((takes || &fast == &gpu_backend()));
  return !takes;
}

// Quantises boundary rows by every backend; returns how many elements were compared.
int64_t compare_boundaries(int64_t rows, uint32_t seed) {
  int64_t compared = 0;
  for (const Backend* fast : test::backends_under_test()) {
    for (const char* words : edge_specs) {
      const QuantSpec spec = quant_spec_from_words(words);
      const int64_t k = 192;
      QuantizeCall call;
      call.spec = spec;
      call.place = {seed, 7, 3};
      const std::vector<float> x = boundary_rows(spec, call.place, rows, k, seed);
      call.x = view_of(x.data(), rows, k);
      Quantized got;
      Quantized expected;
      INFO(fast->name() << " " << words << " seed " << seed);
      if (is_declined(*fast, call)) continue;
      fast->quantize(call, got);
      reference_backend().quantize(call, expected);
      CHECK(got.scales == expected.scales);
      CHECK(got.codes == expected.codes);
      // The same through the short ways of a gemm: B = identity-like rows decode A's elements one by one.
      std::vector<float> eye(static_cast<size_t>(32 * k), 0.0f);
      for (int64_t i = 0; i < 32; ++i) eye[static_cast<size_t>(i * k + (i * 5 + seed) % k)] = 1.0f;
      std::vector<float> c(static_cast<size_t>(rows * 32), -7.0f);
      std::vector<float> expected_c = c;
      MultiplyCall product;
      product.a = call;
      product.b.x = view_of(eye.data(), 32, k);
      product.c_stride = 32;
      std::vector<float> columns(x.size());
      for (int64_t i = 0; i < rows * k; ++i)
        columns[static_cast<size_t>(i % k * rows + i / k)] = x[static_cast<size_t>(i)];
      for (const char* other : {"mxfp4", "mxfp8"}) {  // panels of bytes, and of 16-bit numbers or floats
        product.b.spec = quant_spec_from_words(other);
        product.a.x = call.x;
        product.c = expected_c.data();
        Dispatcher("reference").multiply(product);
        for (const bool by_rows : {true, false}) {
          if (!by_rows) product.a.x = view_of(columns.data(), k, rows).transposed();
          product.c = c.data();
          if (!fast->multiply(product)) continue;
          INFO("a product with " << other << ", panels by " << (by_rows ? "rows" : "columns"));
          CHECK(std::memcmp(c.data(), expected_c.data(), c.size() * sizeof(float)) == 0);
        }
      }
      compared += rows * k;
    }
  }
  return compared;
}

TEST_CASE("values beside code boundaries and thresholds get the reference's codes", "[quick]") {
  for (uint32_t seed = 1; seed <= 4; ++seed) compare_boundaries(48, seed);
}

// Maxima whose quotients a/M and a/(2M/3) lie on the boundaries of scale rounding, give or take two units: midpoints
// of codes, codes themselves, and where a draw turns the decision.
TEST_CASE("scales beside midpoints and draws get the reference's codes", "[quick]") {
  const int64_t rows = 192, k = 64, block = 16;
  for (const char* words :
       {"nvfp4,tensor_scale=none,scale=bf16", "nvfp4,tensor_scale=none,scale=bf16,element=e4m3",
        "nvfp4,tensor_scale=none", "nvfp4,tensor_scale=none,element=e3m0", "nvfp4,tensor_scale=none,scale_rule=encode",
        "nvfp4,tensor_scale=none,scale_rule=four_over_six", "ue5m3fp4,scale_rule=four_over_six,element=e3m0",
        "ue5m3fp4,scale_rule=four_over_six,element=e4m3", "ue5m3fp4,scale_rule=four_over_six,element=e3m2",
        "ue5m3fp4,scale_rule=four_over_six,arithmetic=te", "ue5m3fp4,scale_rule=mse,element=e2m3",
        "nvfp4,arithmetic=vllm,tensor_scale=1", "nvfp4,arithmetic=divide_global,tensor_scale=1",
        "nvfp4,arithmetic=modelopt,tensor_scale=1", "nvfp4,arithmetic=factor_first,tensor_scale=1",
        "fouroversix,arithmetic=fouroversix,tensor_scale=1,error_order=decoded_factor"}) {
    for (const char* more :
         {"", ",scale_rounding=toward_positive", ",scale_rounding=nearest_away", ",scale_rounding=toward_zero",
          ",scale_rounding=stochastic,random_bits=4", ",scale_rounding=stochastic,random_bits=8",
          ",scale_rounding=stochastic,random_bits=16", ",scale_rounding=stochastic,random_bits=32"}) {
      QuantizeCall call;
      call.spec = quant_spec_from_words(std::string(words) + more);
      call.place = {11, 3, 5};
      const Quantizer q = resolve(call.spec);
      const float largest = decode(q.element, q.element.largest_code);
      test::Random random(4);
      std::vector<float> x(static_cast<size_t>(rows * k));
      for (int64_t first = 0; first < rows * k; first += block) {
        const int lowest = call.spec.scale == Scale::bf16 ? 0x3F00 : 8;
        const double low = decode(q.scale, static_cast<uint32_t>(lowest + test::pick(random, 60)));
        const double step = std::ldexp(1.0, std::ilogb(low) - q.scale.mantissa_bits);
        const uint32_t draw =
            random_draw(call.place.scale_rounding(), static_cast<uint64_t>(first / block), q.random_bits);
        const double n = std::ldexp(1.0, q.random_bits);
        const double turn = (n - draw - 0.5 * test::pick(random, 2)) / n;
        const double fractions[] = {0.0, 0.5, turn, turn};
        const double quotient = low + step * fractions[test::pick(random, 4)];
        const double target = test::pick(random, 2) == 0 ? largest : largest * 2.0 / 3.0;
        const double a = call.spec.scale_rule == ScaleRule::encode ? largest / quotient : quotient * target;
        const float amax = moved(static_cast<float>(a), test::pick(random, 5) - 2);
        for (int64_t i = 0; i < block; ++i)
          x[static_cast<size_t>(first + i)] = i == 3 ? amax : amax * static_cast<float>(test::pick(random, 24)) / 24.0f;
      }
      call.x = view_of(x.data(), rows, k);
      Quantized expected;
      reference_backend().quantize(call, expected);
      for (const Backend* fast : test::backends_under_test()) {
        Quantized got;
        INFO(fast->name() << " " << words << more);
        if (is_declined(*fast, call)) continue;
        fast->quantize(call, got);
        CHECK(got.scales == expected.scales);
        CHECK(got.codes == expected.codes);
      }
    }
  }
}

TEST_CASE("bf16 next to its boundaries, in every binade, infinities and NaN", "[quick]") {
  const int64_t rows = 40, k = 192;
  for (const Backend* fast : test::backends_under_test()) {
    for (const char* words : {"bf16", "bf16,negative_zero=drop", "bf16,rounding=nearest_away"}) {
      std::mt19937 random(5);
      for (int trial = 0; trial < 20; ++trial) {
        std::vector<float> x(static_cast<size_t>(rows * k));
        const uint32_t range = trial % 2 == 0 ? 0x7F80u : 0x8000u;  // finite ones only, in which NaN would hide them
        for (float& v : x) {
          const uint32_t low[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
          v = float_of(static_cast<uint32_t>((random() % range) << 16 | low[random() % 6] | random() << 31));
        }
        std::vector<float> eye(static_cast<size_t>(32 * k), 0.0f);
        for (int64_t i = 0; i < 32; ++i) eye[static_cast<size_t>(i * k + (i * 6 + trial) % k)] = 1.0f;
        std::vector<float> c(static_cast<size_t>(rows * 32), -7.0f);
        std::vector<float> expected = c;
        MultiplyCall product;
        product.a.x = view_of(x.data(), rows, k);
        product.a.spec = quant_spec_from_words(words);
        product.b.x = view_of(eye.data(), 32, k);
        product.b.spec = quant_spec_from_words("fp32");
        product.c = c.data();
        product.c_stride = 32;
        REQUIRE(fast->multiply(product));
        product.c = expected.data();
        Dispatcher("reference").multiply(product);
        INFO(fast->name() << " " << words << " trial " << trial);
        CHECK(std::memcmp(c.data(), expected.data(), c.size() * sizeof(float)) == 0);
      }
    }
  }
}

// 0 times infinity: processors give NaNs of either sign.
TEST_CASE("an infinite tensor scale makes zeros the one NaN", "[quick]") {
  const std::vector<float> x = {0.0f, -0.0f, 1.0f, -6.0f, 0.0f, 0.01f, 6.0f, 2.0f};
  Quantized q;
  reference_backend().quantize({.x = view_of(x.data(), 1, 8), .spec = quant_spec_from_words("nvfp4")}, q);
  q.tensor_scale[0] = INFINITY;
  const float nan = float_of(canonical_nan_bits);
  const std::vector<float> expected = {nan, nan, INFINITY, -INFINITY, nan, nan, INFINITY, INFINITY};
  std::vector<const Backend*> backends = test::backends_under_test();
  backends.push_back(&reference_backend());
  for (const Backend* backend : backends) {
    std::vector<float> y(8);
    backend->dequantize(q, y.data(), 1);
    INFO(backend->name());
    CHECK(test::same_floats(y, expected));
  }
}

// Casts that overflow, under every rounding, as codes and as operands, with a K that fills no vector.
TEST_CASE("casts at and beyond the largest value", "[quick]") {
  const int64_t rows = 20, k = 50;
  for (const Backend* fast : test::backends_under_test()) {
    for (const char* element : {"bf16", "fp16", "bf16,prescale=0.75", "fp16,random_bits=32", "fp32"}) {
      for (const RoundingInfo& mode : rounding_table) {
        const std::string words = std::string(element) + ",rounding=" + mode.name;
        const float largest = decode(format_of(quant_spec_from_words(words).element),
                                     format_of(quant_spec_from_words(words).element).largest_code);
        test::Random random(9);
        std::vector<float> x(static_cast<size_t>(rows * k));
        for (float& v : x) {
          const float all[] = {0.0f,
                               1.0f,
                               moved(largest, test::pick(random, 70000) - 1000),
                               moved(largest, -1),
                               float_of(float_largest_bits),
                               std::ldexp(largest, -1)};
          v = all[test::pick(random, 6)];
          if (!is_finite(v)) v = float_of(float_largest_bits - static_cast<uint32_t>(test::pick(random, 70000)));
          if (test::pick(random, 2) == 0) v = -v;
        }
        QuantizeCall call;
        call.x = view_of(x.data(), rows, k);
        call.spec = quant_spec_from_words(words);
        call.place = {3, 5, 7};
        INFO(fast->name() << " " << words);
        Quantized expected, got;
        reference_backend().quantize(call, expected);
        if (fast->supports_quantize(call)) {
          fast->quantize(call, got);
          CHECK(got.codes == expected.codes);
        }
        std::vector<float> eye(static_cast<size_t>(32 * k), 0.5f);
        std::vector<float> c(static_cast<size_t>(rows * 32), -7.0f);
        std::vector<float> wanted = c;
        MultiplyCall product;
        product.a = call;
        product.b.x = view_of(eye.data(), 32, k);
        product.b.spec = quant_spec_from_words("fp32");
        product.c = c.data();
        product.c_stride = 32;
        if (!fast->multiply(product)) continue;
        product.c = wanted.data();
        Dispatcher("reference").multiply(product);
        CHECK(std::memcmp(c.data(), wanted.data(), c.size() * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("a hundred million values beside boundaries", "[exhaustive]") {
  int64_t compared = 0;
  for (uint32_t seed = 100; compared < 100'000'000; ++seed) compared += compare_boundaries(4096, seed);
  WARN(compared << " conversions compared");
}

// One block of A with scale 2^(ea-127) against blocks of B: every sum of exponents around the ends of fp32 and of the
// kernels' conditions, with partial sums that cancel or grow.
TEST_CASE("scale products at both ends of fp32", "[quick]") {
  std::mt19937 random(5);
  for (const Backend* fast : test::backends_under_test()) {
    for (const char* name : {"fp32_block", "exact", "k64_rz", "fused35_rz", "fp32_sequential", "double"}) {
      for (const int sum : {1,   60,  105, 106, 107, 108, 109, 140, 144, 145, 254,
                            342, 344, 345, 346, 358, 359, 360, 361, 362, 400, 480}) {
        constexpr int64_t rows = 20;
        constexpr int64_t k = 96;
        std::vector<float> a(rows * k);
        std::vector<float> b(rows * k);
        const int ea = std::min(sum - 1 < 252 ? sum / 2 : 240, 250);
        const int eb = std::max(sum - ea, 0);
        for (size_t i = 0; i < a.size(); ++i) {  // amax 4..6 of every block: scale exponents ea and eb, give or take 1
          const auto value = [&random](int e) {
            const int grid[] = {0, 1, 2, 3, 4, 6, 8, 12};
            const int v = grid[random() % 8];
            return std::ldexp(static_cast<float>(random() % 2 == 0 ? v : -v) / 2,
                              e - 127 + static_cast<int>(random() % 2));
          };
          a[i] = i % 32 == 0 ? std::ldexp(4.0f, ea - 127) : value(ea);
          b[i] = i % 32 == 0 ? std::ldexp(4.0f, std::min(eb, 252) - 127) : value(std::min(eb, 252));
        }
        MultiplyCall call;
        call.a.x = view_of(a.data(), rows, k);
        call.b.x = view_of(b.data(), rows, k);
        call.options.accumulator = accumulator_from_words(name);
        std::vector<float> got(rows * rows, -7.0f);
        std::vector<float> expected = got;
        call.c = got.data();
        call.c_stride = rows;
        if (!fast->multiply(call)) continue;
        call.c = expected.data();
        Dispatcher("reference").multiply(call);
        INFO(fast->name() << " " << name << " exponent sum " << sum);
        CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
      }
    }
  }
}

// Sums that reach 24 bits of the least unit, and 25: below that every order and accumulator gives the same. All blocks
// but the last two are as large as they get; those add an odd unit each.
TEST_CASE("sums beside 24 bits under every accumulator", "[quick]") {
  test::Random random(3);
  for (const Backend* fast : test::backends_under_test()) {
    for (const char* name : {"fp32_block", "exact", "k64_rz", "fused35_rz", "fused25_rz", "fused35_rz_2026_08"}) {
      for (const char* words :
           {"mxfp4", "mxfp4,element=e1m2", "mxfp4,element=e3m0", "mxfp4,block=16", "mxfp4,block=8"}) {
        const QuantSpec spec = quant_spec_from_words(words);
        const FloatFormat& f = format_of(spec.element);
        const float largest = decode(f, f.largest_code);
        const float least = power_of_two(f.quantum_log2());
        const int block = spec.block.size;
        for (const int64_t k : {128, 1000, 1024}) {
          for (int apart = 0; apart < 11; ++apart) {
            constexpr int64_t rows = 9;
            std::vector<float> a(static_cast<size_t>(rows * k)), b = a;
            for (int64_t i = 0; i < rows * k; ++i) {
              const int64_t column = i % k;
              const bool last = column / block + 1 >= (k - 1) / block;
              float& x = a[static_cast<size_t>(i)];
              float& y = b[static_cast<size_t>(i)];
              const float sign = test::pick(random, 64) == 0 ? -1.0f : 1.0f;
              x = last ? 0.0f
                       : std::ldexp(sign * largest, apart - test::pick(random, 2) * (i / k % 2 == 0 ? 0 : apart));
              y = last ? 0.0f : largest;
              if (last && column % block == 0) x = y = least;  // an odd unit; the other two give the block its scale
              if (last && column % block == 1) x = largest;
              if (last && column % block == 2) y = largest;
            }
            MultiplyCall call;
            call.a.spec = call.b.spec = spec;
            call.a.x = view_of(a.data(), rows, k);
            call.b.x = view_of(b.data(), rows, k);
            call.options.accumulator = accumulator_from_words(name);
            std::vector<float> got(rows * rows, -7.0f), expected = got;
            call.c = got.data();
            call.c_stride = rows;
            if (!fast->multiply(call)) continue;
            call.c = expected.data();
            Dispatcher("reference").multiply(call);
            INFO(fast->name() << " " << name << " " << words << " K " << k << " scales " << apart << " bits apart");
            CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("smooth block maxima", "[quick]") {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  constexpr int64_t rows = 37;
  constexpr int64_t k = 75;
  std::vector<float> x(rows * k);
  for (float& v : x) v = normal(random);
  for (const Backend* fast : test::backends_under_test()) {
    for (const char* words : {"ue5m3fp4", "mxfp4,block=32x32", "ue5m3fp4,block=row", "nvfp4,block=tensor"}) {
      for (const int size : {0, 32}) {
        QuantizeCall call;
        call.x = view_of(x.data(), rows, k);
        call.spec = quant_spec_from_words(words);
        call.hadamard = {size, HadamardSigns::fixed, HadamardNormalise::sqrt};
        call.soft_alpha = 1.0f;
        Quantized got;
        Quantized expected;
        fast->quantize(call, got);
        reference_backend().quantize(call, expected);
        INFO(fast->name() << " " << words << " hadamard " << size);
        CHECK(got.codes == expected.codes);
        CHECK(got.scales == expected.scales);
      }
    }
  }
}

TEST_CASE("any number of threads gives the same bits", "[quick]") {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  constexpr int64_t n = 528;
  std::vector<float> a(n * n);
  std::vector<float> b(n * n);
  for (float& v : a) v = normal(random);
  for (float& v : b) v = normal(random);
  for (const Backend* fast : test::backends_under_test()) {
    for (const char* words : {"mxfp4,rounding=stochastic", "nvfp4", "fp32", "mxfp4,block=32x32", "mxfp8"}) {
      std::vector<std::vector<float>> results;
      for (const int threads : {1, 2, 3}) {
        std::vector<float> c(n * n, -7.0f);
        MultiplyCall call;
        call.a.x = view_of(a.data(), n, n);
        call.b.x = view_of(b.data(), n, n).transposed();
        call.a.spec = call.b.spec = quant_spec_from_words(words);
        call.a.threads = call.b.threads = call.options.threads = threads;
        call.c = c.data();
        call.c_stride = n;
        REQUIRE(fast->multiply(call));
        results.push_back(std::move(c));
      }
      INFO(fast->name() << " " << words);
      CHECK(std::memcmp(results[0].data(), results[1].data(), n * n * sizeof(float)) == 0);
      CHECK(std::memcmp(results[0].data(), results[2].data(), n * n * sizeof(float)) == 0);
    }
  }
}

}  // namespace
}  // namespace fp4
