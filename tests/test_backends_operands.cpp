// Operands that nobody thought of: every field of the spec drawn; draws beside what they decide; and what depends on an
// operand's size: maxima, bands and threads. Expected values come from the reference.
#include <cstring>

#include "src/cpu/quantize/engine_table.h"
#include "tests/support/drawn_operands.h"
#include "tests/support/kernel_uses.h"
#include "tests/support/share.h"

namespace fp4 {
namespace {

using namespace test;

QuantSpec drawn_spec(Random& random) {
  for (;;) {
    QuantSpec s = one_of(random, preset_table).spec;
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
    const int exponent = pick(random, 4) == 0 ? pick(random, 250) - 140 : pick(random, 16) - 8;
    s.factor = s.tensor_scale == TensorScale::given ? std::ldexp(significand(random), exponent) : 0.0f;
    if (invalid_reason(s).empty()) return s;
  }
}

void compare_drawn(int count, uint32_t seed) {
  Comparison backends;
  for (int i = 0; i < count; ++i, ++seed) {
    if (share() > 1 && i % 6 != 0) continue;  // a sixth still reaches every engine
    Random random(seed);
    const QuantSpec spec = drawn_spec(random);
    const QuantSpec other = pick(random, 2) == 0 ? spec : drawn_spec(random);
    backends.drawn(spec, other, "seed " + std::to_string(seed) + ": ", random);
  }
  backends.report("drawn operands and products");
}

// At the definition's speed a row of attention weights took as long as the rest of the step.
TEST_CASE("one tensor factor a row goes to the vectors", "[quick]") {
  const QuantSpec row = quant_spec_from_words("nvfp4,tensor_scale=row"), plain = quant_spec_from_words("nvfp4");
  const std::vector<float> x(size_t{40} * 300, 1.0f);
  Quantized stored;
  reference_backend().quantize({.x = view_of(x.data(), 40, 300), .spec = row}, stored);
  for (const Backend* fast : backends_under_test()) {
    if (fast->name() == std::string("gpu")) continue;
    INFO(fast->name());
    CHECK(fast->supports_quantize({.x = view_of(x.data(), 40, 300), .spec = row}));
    CHECK(fast->supports_dequantize(stored));
    CHECK(fast->supports_gemm(row, plain, {.accumulator = {.kind = AccumulatorKind::fma}}));
    CHECK_FALSE(fast->supports_gemm(row, plain, {}));  // in blocks: without factors, which the Dispatcher puts back
  }
}

TEST_CASE("factors of rows without columns", "[quick]") {
  Comparison backends;
  const float none = 0.0f;
  for (const char* words : {"nvfp4,tensor_scale=outer128", "nvfp4,tensor_scale=row", "nvfp4"})
    backends.operand({.x = view_of(&none, 4, 0), .spec = quant_spec_from_words(words)}, words);
  backends.report("operands without columns");
}

TEST_CASE("drawn operands, which reach every engine", "[quick]") {
  cpu::quantize_uses.reset();
  compare_drawn(1500, 1);
  check_uses(cpu::quantize_engine_table, cpu::quantize_uses, "panels", true);
}

TEST_CASE("many drawn operands", "[exhaustive]") { compare_drawn(60000, 1000000); }

// Payloads that their draws carry just so, or just not; few, as one in doubt sends its neighbours another way, too.
TEST_CASE("draws beside what they decide", "[quick]") {
  constexpr int64_t rows = 100;
  constexpr int64_t cols = 1024;
  Comparison backends;
  std::vector<float> x(rows * cols);
  const std::string nvfp4 = "nvfp4,tensor_scale=none,";
  for (const std::string& words :
       {std::string("mxfp4,rounding=stochastic,random_bits=32"),
        std::string("mxfp4,rounding=stochastic_truncated,random_bits=32"),
        std::string("mxfp4,rounding=stochastic_midpoint,random_bits=16"), nvfp4 + "rounding=stochastic,random_bits=32",
        nvfp4 + "rounding=stochastic_midpoint,random_bits=32", nvfp4 + "rounding=stochastic_truncated,random_bits=32",
        nvfp4 + "rounding=stochastic,random_bits=16", nvfp4 + "rounding=stochastic_truncated,random_bits=16",
        nvfp4 + "rounding=stochastic_midpoint,random_bits=4", nvfp4 + "scale=bf16,rounding=stochastic,random_bits=16",
        nvfp4 + "scale=bf16,rounding=stochastic_midpoint,random_bits=16"}) {
    if (!next_case_runs()) continue;
    QuantizeCall call;
    call.spec = quant_spec_from_words(words);
    call.place = {11, 2, 9};
    call.x = view_of(x.data(), rows, cols);
    const int n_bits = call.spec.random_bits;
    const int steps = 1 << resolve(call.spec).scale.mantissa_bits;
    Random random(3);
    for (size_t i = 0; i < x.size(); ++i) {
      // Blocks scaled by a significand of their format; their first element is the largest.
      const double scale = 1.0 + static_cast<double>(static_cast<int>(i / 32 % 1024) % steps) / steps;
      const double low = pick(random, 2) == 0 ? std::ldexp(1.0, pick(random, 3)) : 0.0;
      const double step = low == 0.0 ? 0.5 : low / 2.0;
      const double half = pick(random, 2) == 0 ? 0.5 : 0.0;  // where the last bit that counts is rounded
      const double up = 1.0 - std::ldexp(static_cast<double>(random_draw(call.place, i, n_bits)) + half, -n_bits);
      const auto exact = static_cast<float>((i % 16 == 0 ? 6.0 : low + step * up) * scale);
      const int units = i % 16 == 0 ? 0 : pick(random, 9) - 4;
      x[i] = float_of((bits_of(exact) + static_cast<uint32_t>(units)) & 0x7FFFFFFFu);
      if (pick(random, 2) == 0) x[i] = -x[i];
      if (i % 16 != 0 && pick(random, 256) != 0) x[i] = 0.01f * static_cast<float>(pick(random, 1001) - 500);
    }
    backends.operand(call, words + ": ");
  }
}

// Codes of a large operand go past the caches; those of its bands do not, and the reference is compared with those.
TEST_CASE("a large operand equals its bands", "[quick]") {
  struct Case {
    const char* words;
    int hadamard;
    int64_t rows;  // of 2048
  };
  constexpr Case cases[] = {{"mxfp4", 0, 4096},
                            {"mxfp4,rounding=stochastic", 128, 4112},
                            {"mxfp4,tensor_scale=hold,block=16", 0, 4096},
                            {"mxfp8", 0, 2064}};
  constexpr int64_t cols = 2048;
  constexpr int64_t band = 48;
  Random random(99);
  const std::vector<float> repeated = pieces(64 * cols + 32, 40, random);
  std::vector<float> x(4112 * cols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = repeated[i % repeated.size()];
  for (const Case& c : cases) {
    if (!next_case_runs()) continue;
    QuantizeCall call;
    call.spec = quant_spec_from_words(c.words);
    call.hadamard = {c.hadamard, HadamardSigns::per_step, HadamardNormalise::sqrt};
    call.place = {5, 3, 1};
    call.held_amax = 37.0f;
    for (const Backend* fast : backends_under_test()) {
      if (!fast->supports_quantize(call)) continue;
      std::vector<uint8_t> codes;
      std::vector<uint8_t> scales;
      for (int64_t row = 0; row < c.rows; row += band) {
        call.x = view_of(x.data() + row * cols, smaller(band, c.rows - row), cols);
        call.row_offset = row;
        call.threads = 1;
        Quantized part;
        fast->quantize(call, part);
        codes.insert(codes.end(), part.codes.begin(), part.codes.end());
        scales.insert(scales.end(), part.scales.begin(), part.scales.end());
      }
      call.x = view_of(x.data(), c.rows, cols);
      call.row_offset = 0;
      for (const int threads : {1, 2, 3}) {
        call.threads = threads;
        const std::vector<uint8_t> shift(static_cast<size_t>(threads) * 48 + 100);  // codes begin elsewhere in a line
        Quantized whole = poisoned();
        fast->quantize(call, whole);
        INFO(fast->name() << " " << c.words << " threads " << threads);
        REQUIRE(std::memcmp(whole.codes.data(), codes.data(), codes.size()) == 0);
        REQUIRE(whole.scales == scales);
      }
    }
  }
}

TEST_CASE("the largest magnitude is found wherever it lies", "[quick]") {
  constexpr int64_t cols = 5184;
  Random random(5);
  std::vector<float> x = pieces(4 * cols, 0, random);
  const QuantizeCall call = {.x = view_of(x.data(), 4, cols), .spec = quant_spec_from_words("nvfp4")};
  for (const size_t place : {0u, 15u, 1024u, 5000u, 8191u, 8192u, 12300u, 16383u, 16384u, 16400u, 20700u, 20735u}) {
    for (const float largest : {-1e4f, 1e5f, INFINITY}) {
      const float before = x[place];
      x[place] = largest;
      for (const Backend* fast : backends_under_test()) {
        Quantized got;
        fast->quantize(call, got);
        INFO(fast->name() << " at " << place << ": " << largest);
        CHECK((is_finite(largest) ? got.amax == std::fabs(largest) : is_finite(got.amax)));
      }
      x[place] = before;
    }
  }
}

TEST_CASE("any number of threads gives the same codes", "[quick]") {
  Random random(3);
  const std::vector<float> x = pieces(515 * 544, 40, random);
  Comparison backends;
  for (const char* words : {"mxfp4", "mxfp4,rounding=stochastic", "nvfp4", "te_nvfp4,rounding=stochastic", "mxfp8"}) {
    for (const int threads : {1, 2, 3}) {
      QuantizeCall call = {.x = view_of(x.data(), 515, 544), .spec = quant_spec_from_words(words)};
      call.threads = threads;
      backends.operand(call, std::to_string(threads) + " threads: ");
    }
  }
}

}  // namespace
}  // namespace fp4
