// Quantisers that work along the row, sixteen adjacent blocks at a time, and those of panels: do they end in the
// reference's bits when blocks that need more than fp32 lie between ordinary ones, at tails, on odd strides, and with
// several threads?
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "tests/support/backends_under_test.h"
#include "tests/support/same_floats.h"
#include "tests/support/share.h"

namespace fp4 {
namespace {

enum class Filling { ordinary, sparse, dense };  // how many blocks are special

// Sixteen elements. Ordinary blocks are Gaussian, or lie on and beside the boundaries of a scale of 4 bits.
void fill_piece(float* x, bool special, std::mt19937& random) {
  std::normal_distribution<float> normal;
  const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  const bool gaussian = pick(2) == 0;
  const float scale = std::ldexp(1.0f + static_cast<float>(pick(8)) / 8.0f, pick(9) - 4);
  constexpr float boundaries[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 6.0f, 1.0f, 0.0f, 3.0f, 0x1p-11f};
  for (int i = 0; i < 16; ++i) {
    if (gaussian) {
      x[i] = normal(random);
      continue;
    }
    x[i] = (i == 3 ? 6.0f : boundaries[pick(12)]) * scale;
    if (pick(3) == 0) x[i] = std::nextafter(x[i], pick(2) == 0 ? 0.0f : 100.0f);
    if (pick(2) == 0) x[i] = -x[i];
  }
  if (!special) return;
  constexpr int exponents[] = {-149, -140, -126, -112, -101, -99, -60, 60, 99, 101, 120, 125};
  const int kind = pick(9);
  for (int i = 0; i < 16; ++i) {
    if (kind == 0) x[i] = pick(2) == 0 ? 0.0f : -0.0f;
    if (kind == 1) x[i] = pick(3) == 0 ? x[i] : (pick(2) == 0 ? 0.0f : -0.0f);
    if (kind == 2) x[i] = float_of(random() & 0x800FFFFFu);
    if (kind > 2 && kind < 7) x[i] = std::ldexp(x[i], exponents[(kind - 3) * 3 + i % 3]);
  }
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (kind == 7) x[pick(16)] = pick(2) == 0 ? infinity : -infinity;
  if (kind == 8) x[pick(16)] = std::numeric_limits<float>::quiet_NaN();
}

std::vector<float> make_rows(Filling filling, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> x(static_cast<size_t>(count) + 16);
  for (size_t i = 0; i + 16 <= x.size(); i += 16) {
    const bool special = filling == Filling::dense || (filling == Filling::sparse && random() % 40 == 0);
    fill_piece(x.data() + i, special, random);
  }
  return x;
}

constexpr const char* specs[] = {
    "mxfp4",
    "mxfp4,scale_rule=ceil",
    "mxfp4,scale_rule=rceil,negative_zero=drop",
    "mxfp4,scale_rule=even,rounding=nearest_away",
    "mxfp4,scale_rule=uos,nonfinite=saturate",
    "mxfp4,scale_rule=nearest_log2,block=16",
    "mxfp4,scale_rule=amax,block=64",
    "mxfp4,block=16,rounding=toward_positive,zero_block=limit",
    "mxfp4,rounding=toward_zero,prescale=0.75,scale_floor=1",
    "mxfp4,element=e1m2",
    "mxfp4,element=e1m2,scale_rule=ceil,rounding=toward_negative",
    "mxfp4,tensor_scale=current",
    "mxfp4,arithmetic=te",
    "mxfp4,rounding=stochastic",
    "mxfp4,rounding=stochastic,scale_rule=rceil,negative_zero=drop",
    "mxfp4,rounding=stochastic,block=16,prescale=0.75",
    "mxfp4,rounding=stochastic,random_bits=16",
    "mxfp4,rounding=stochastic_midpoint",
    "mxfp4,rounding=stochastic_midpoint,prescale=0.75,scale_rule=even",
    "nvfp4,rounding=stochastic_midpoint",
    "te_nvfp4,rounding=stochastic_midpoint",
    "ue5m3fp4,scale=ue5m3_61440,arithmetic=te,zero_scale=one,tensor_scale=hold,rounding=stochastic_midpoint",
    "nvfp4",
    "nvfp4,tensor_scale=none",
    "nvfp4,block=32,negative_zero=drop",
    "nvfp4,rounding=away_from_zero,prescale=0.75",
    "nvfp4,rounding=nearest_toward_zero,tensor_scale=hold",
    "nvfp4,rounding=stochastic",
    "nvfp4,rounding=stochastic,tensor_scale=none,block=32",
    "nvfp4,scale_rounding=stochastic",
    "nvfp4,arithmetic=divide",
    "nvfp4,element=e1m2,zero_scale=one",
    "te_nvfp4",
    "te_nvfp4,rounding=stochastic",
    "te_nvfp4,block=32,tensor_scale=none",
    "ue5m3fp4",
    "ue5m3fp4,rounding=stochastic",
    "ue5m3fp4,scale=ue5m3_61440,arithmetic=te,zero_scale=one",
    "graphcore_2509_encode",
    "graphcore_2509_encode,rounding=stochastic",
    "fouroversix",
    "fouroversix,rounding=stochastic,tensor_scale=none",
    "fouroversix,block=32,scale=ue5m3,tensor_scale=none",
    "fouroversix,zero_scale=one,negative_zero=drop",
    "mxfp8",
    "mxfp8,element=e5m2,block=16,rounding=stochastic",
    "mxfp6_e3m2",
    "mxfp6_e2m3,rounding=toward_zero,negative_zero=drop",
};

// What runs do not know: in lanes, sixteen rows at a time, contiguous operands too.
constexpr const char* other_specs[] = {
    "vllm_nvfp4,tensor_scale=hold",
    "vllm_nvfp4,rounding=stochastic",
    "torchao_nvfp4,nonfinite=saturate",
    "mlx_nvfp4,nonfinite=saturate",
    "compressed_tensors_nvfp4,nonfinite=saturate",
    "compressed_tensors_mxfp4",
    "compressed_tensors_mxfp4,element=e2m3,block=row",
    "microxcaling_even_bf16",
    "modelopt_mxfp4,nonfinite=saturate",
    "modelopt_nvfp4,element=e4m3",
    "ggml_nvfp4,nonfinite=saturate",
    "alto_nvfp4,block=16x16",
    "te_46_mae,block=16x16",
    "fbgemm_mx4_even,nonfinite=saturate",
    "fbgemm_mx4_nearest,tensor_scale=current",
    "pytorch_mxfp4,element=e5m2",
    "mxfp4,rounding=stochastic,random_bits=4",
    "mxfp4,rounding=stochastic,random_bits=32",
    "mxfp4,rounding=stochastic_midpoint,random_bits=16",
    "mxfp4,rounding=stochastic_midpoint,random_bits=32,negative_zero=drop",
    "mxfp4,rounding=stochastic_truncated",
    "mxfp4,rounding=stochastic_truncated,random_bits=32,block=8",
    "mxfp4,rounding=stochastic,random_bits=16,prescale=0.75",
    "nvfp4,rounding=stochastic,random_bits=4",
    "nvfp4,rounding=stochastic,random_bits=16,negative_zero=drop",
    "nvfp4,rounding=stochastic,random_bits=32",
    "nvfp4,rounding=stochastic_truncated",
    "nvfp4,rounding=stochastic_midpoint,random_bits=16,prescale=0.75",
    "nvfp4,rounding=stochastic,random_bits=4,block=8",
    "nvfp4,scale_rounding=stochastic,random_bits=4",
    "nvfp4,scale_rounding=stochastic,random_bits=16,rounding=stochastic",
    "nvfp4,scale_rounding=stochastic,random_bits=32",
    "nvfp4,scale_rounding=toward_positive",
    "nvfp4,scale=bf16",
    "nvfp4,scale=bf16,scale_rule=encode,rounding=stochastic",
    "nvfp4,scale=bf16,arithmetic=te,rounding=toward_zero",
    "nvfp4,scale=fp32",
    "nvfp4,scale=fp32,rounding=away_from_zero",
    "nvfp4,scale=fp32,scale_rule=encode",
    "nvfp4,scale=fp32,scale_rule=encode,prescale=0.75,tensor_scale=none",
    "nvfp4,scale=fp32,arithmetic=divide,element=e1m2",
    "nvfp4,scale_rule=encode,arithmetic=divide",
    "nvfp4,tensor_scale=outer128",
    "nvfp4,tensor_scale=outer128,block=8,rounding=stochastic",
    "nvfp4,tensor_scale=outer128,block=32,scale_rounding=stochastic",
    "te_nvfp4,tensor_scale=outer128,block=128",
    "mxfp4,tensor_scale=outer128,arithmetic=divide",
    "nvfp4,arithmetic=divide,prescale=0.75",
    "nvfp4,arithmetic=divide,rounding=stochastic,random_bits=16",
    "nvfp4,arithmetic=reciprocal",
    "nvfp4,arithmetic=reciprocal,rounding=toward_positive,zero_scale=one",
    "te_nvfp4,prescale=0.75,rounding=toward_negative",
    "mxfp4,element=e3m0",
    "mxfp4,element=e3m0,rounding=nearest_away",
    "mxfp4,element=e3m0,rounding=nearest_toward_zero",
    "nvfp4,element=e3m0,negative_zero=drop",
    "nvfp4,element=e3m0,rounding=toward_negative",
    "nvfp4,element=e3m0,rounding=stochastic",
    "nvfp4,element=e4m3,rounding=nearest_away",
    "nvfp4,element=e4m3,rounding=stochastic,random_bits=16",
    "nvfp4,element=e5m2,rounding=nearest_toward_zero",
    "nvfp4,element=e5m2,rounding=away_from_zero",
    "nvfp4,element=e2m3,rounding=toward_positive",
    "nvfp4,element=e3m2,rounding=toward_zero",
    "mxfp8,rounding=stochastic,random_bits=16",
    "mxfp8,rounding=toward_negative",
    "mxfp8,element=e5m2,rounding=stochastic_midpoint,random_bits=32",
    "mxfp4,block=8",
    "mxfp8,block=8",
    "nvfp4,block=8",
    "ue5m3fp4,block=8",
    "ue5m3fp4,block=8,scale_rule=mse",
    "nvfp4,block=8,rounding=stochastic,random_bits=32",
    "nvfp4,block=8,arithmetic=divide",
    "te_nvfp4,block=8",
    "ue5m3fp4,block=8,element=e2m3,rounding=toward_zero",
    "ue5m3fp4,element=e3m2,rounding=stochastic_truncated",
    "nvfp4,block=64",
    "mxfp4,block=128,scale_rule=amax",
    "mxfp4,scale_rule=quest_nearest",
    "mxfp4,scale_rule=quest_floor,tensor_scale=current",
    "ue5m3fp4,scale_rule=mse",
    "nvfp4,scale_rule=mse,block=32,rounding=stochastic",
    "nvfp4,scale_rule=mse,tensor_scale=outer128,zero_scale=one",
    "mxfp4,scale_rule=mse",
    "mxfp4,scale_rule=mse,block=8",
    "mxfp4,scale_rule=mse,block=16,scale_floor=0.25",
    "nvfp4,scale_rule=mse,block=8,scale_rounding=toward_positive",
    "ue5m3fp4,scale_rule=mse,scale_floor=0.01,zero_block=limit",
    "nvfp4,scale_rule=four_over_six,element=e3m2",
    "bf16",
    "bf16,rounding=stochastic,random_bits=16",
    "bf16,rounding=toward_negative",
    "fp16",
    "fp16,rounding=stochastic",
    "fp16,rounding=nearest_away,negative_zero=drop",
    "fp16,rounding=stochastic_midpoint,random_bits=32",
    "mxfp4,block=16x16",
    "mxfp4,block=32x32,rounding=stochastic",
    "mxfp4,block=8x8",
    "nvfp4,block=16x16,scale_rounding=stochastic,rounding=stochastic,random_bits=4",
    "nvfp4,block=16x16,scale=fp32,rounding=away_from_zero",
    "te_nvfp4,block=32x32",
    "mxfp4,block=row",
    "mxfp4,block=row,scale=fp32,scale_rule=amax",
    "nvfp4,block=row,scale=bf16,rounding=stochastic",
    "mxfp4,block=tensor,rounding=stochastic,random_bits=4",
    "mxfp8,block=row,scale_rule=quest_floor",
};

struct Shape {
  int64_t rows, cols, stride;  // stride 0: column-major
};
constexpr Shape shapes[] = {{1, 512, 512},   {1, 2592, 2592}, {3, 544, 544}, {17, 96, 96},
                            {40, 64, 64},    {5, 1024, 1029}, {9, 512, 0},   {6, 528, 528},
                            {2, 1056, 1056}, {4, 0, 0},       {5, 896, 896}};

// Poison everywhere: storage is reused.
Quantized poisoned(size_t bytes) {
  Quantized q;
  q.codes.assign(bytes, 0xAA);
  q.scales.assign(bytes, 0xAA);
  q.real_scales.assign(bytes, float_of(0xAAAAAAAA));
  return q;
}

bool same(const Quantized& a, const Quantized& b) {
  return a.codes == b.codes && a.scales == b.scales && test::same_floats(a.real_scales, b.real_scales) &&
         a.tensor_scale == b.tensor_scale && bits_of(a.amax) == bits_of(b.amax) &&
         a.geometry.scale_cols == b.geometry.scale_cols && a.geometry.padded_cols == b.geometry.padded_cols;
}

template <size_t n>
void check_rows(const char* const (&words_of_specs)[n], std::initializer_list<int> hadamards) {
  const std::vector<const Backend*> backends = test::backends_under_test();
  uint32_t seed = 7;
  for (const char* words : words_of_specs) {
    const QuantSpec spec = quant_spec_from_words(words);
    for (const int hadamard : hadamards) {
      for (const Shape& shape : shapes) {
        if (hadamard > 16 && shape.rows % 2 == 0) continue;
        for (const Filling filling : {Filling::ordinary, Filling::sparse, Filling::dense}) {
          ++seed;
          if (!test::next_case_runs(test::large_share())) continue;
          const std::vector<float> x = make_rows(filling, shape.rows * larger(shape.cols, shape.stride), seed);
          const float* data = x.data() + seed % 3;  // any alignment of floats
          QuantizeCall call;
          call.x = {data, shape.rows, shape.cols, shape.stride == 0 ? 1 : shape.stride,
                    shape.stride == 0 ? shape.rows : 1};
          call.spec = spec;
          call.hadamard = {hadamard, HadamardSigns::per_step, HadamardNormalise::sqrt};
          call.place = {5, 3, seed};
          call.held_amax = 37.0f;
          const int64_t band = spec.block.kind == BlockKind::square ? spec.block.size : 1;  // rows of a block
          call.row_offset = spec.tensor_scale == TensorScale::none ? seed % 5 * band : 0;
          Quantized expected;
          reference_backend().quantize(call, expected);
          for (const Backend* fast : backends) {
            if (!fast->supports_quantize(call)) continue;
            Quantized got = poisoned(8192);
            fast->quantize(call, got);
            INFO(fast->name() << " " << words << " hadamard " << hadamard << " shape " << shape.rows << "x"
                              << shape.cols << " stride " << shape.stride << " filling " << static_cast<int>(filling));
            REQUIRE(same(got, expected));
          }
        }
      }
    }
  }
}

TEST_CASE("runs along a row equal the reference", "[quick]") { check_rows(specs, {0, 16, 32, 128}); }

TEST_CASE("other specs of contiguous rows equal the reference", "[quick]") { check_rows(other_specs, {0, 64, 256}); }

// Payloads that their draws carry just so, or just not; few, as one in doubt sends its neighbours another way, too.
TEST_CASE("draws beside what they decide", "[quick]") {
  constexpr const char* drawn[] = {
      "mxfp4,rounding=stochastic,random_bits=32",
      "mxfp4,rounding=stochastic_truncated,random_bits=32",
      "mxfp4,rounding=stochastic_midpoint,random_bits=16",
      "nvfp4,tensor_scale=none,rounding=stochastic,random_bits=32",
      "nvfp4,tensor_scale=none,rounding=stochastic_midpoint,random_bits=32",
      "nvfp4,tensor_scale=none,rounding=stochastic_truncated,random_bits=32",
      "nvfp4,tensor_scale=none,rounding=stochastic,random_bits=16",
      "nvfp4,tensor_scale=none,rounding=stochastic_truncated,random_bits=16",
      "nvfp4,tensor_scale=none,rounding=stochastic_midpoint,random_bits=4",
      "nvfp4,tensor_scale=none,scale=bf16,rounding=stochastic,random_bits=16",
      "nvfp4,tensor_scale=none,scale=bf16,rounding=stochastic_midpoint,random_bits=16",
  };
  constexpr int64_t rows = 100;
  constexpr int64_t cols = 2048;
  std::vector<float> x(rows * cols);
  for (const char* words : drawn) {
    QuantizeCall call;
    call.spec = quant_spec_from_words(words);
    call.place = {11, 2, 9};
    call.x = view_of(x.data(), rows, cols);
    const int n_bits = call.spec.random_bits;
    const int scale_bits = resolve(call.spec).scale.mantissa_bits;
    std::mt19937 random(3);
    for (size_t i = 0; i < x.size(); ++i) {
      // Blocks scaled by a significand of their format.
      const int steps = 1 << scale_bits;
      const double scale = 1.0 + static_cast<double>(static_cast<int>(i / 32 % 1024) % steps) / steps;
      const double low = std::ldexp(1.0, static_cast<int>(random() % 3)) * (random() % 2 == 0 ? 1.0 : 0.0);
      const double step = low == 0.0 ? 0.5 : low / 2.0;
      const double half = random() % 2 == 0 ? 0.5 : 0.0;  // where the last bit that counts is rounded
      const double up = 1.0 - std::ldexp(static_cast<double>(random_draw(call.place, i, n_bits)) + half, -n_bits);
      const int64_t units = static_cast<int64_t>(random() % 9) - 4;
      const auto exact = static_cast<float>((i % 16 == 0 ? 6.0 : low + step * up) * scale);
      const uint32_t beside = bits_of(exact) + (i % 16 == 0 ? 0u : static_cast<uint32_t>(units));
      x[i] = float_of(beside & 0x7FFFFFFFu) * (random() % 2 == 0 ? 1.0f : -1.0f);
      if (i % 16 != 0 && random() % 256 != 0)
        x[i] = 0.01f * static_cast<float>(static_cast<int>(random() % 1001) - 500);
    }
    Quantized expected;
    reference_backend().quantize(call, expected);
    for (const Backend* fast : test::backends_under_test()) {
      Quantized got = poisoned(8192);
      fast->quantize(call, got);
      INFO(fast->name() << " " << words);
      REQUIRE(same(got, expected));
    }
  }
}

// Codes of a large operand go past the caches; those of its bands do not, and equal the reference's (above).
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
  const std::vector<const Backend*> backends = test::backends_under_test();
  const std::vector<float> pieces = make_rows(Filling::sparse, 64 * cols + 32, 99);
  std::vector<float> x(4112 * cols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = pieces[i % (pieces.size() - 16)];
  for (const Case& c : cases) {
    QuantizeCall call;
    call.spec = quant_spec_from_words(c.words);
    call.hadamard = {c.hadamard, HadamardSigns::per_step, HadamardNormalise::sqrt};
    call.place = {5, 3, 1};
    call.held_amax = 37.0f;
    for (const Backend* fast : backends) {
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
        Quantized whole = poisoned(codes.size());
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
  const std::vector<const Backend*> backends = test::backends_under_test();
  std::vector<float> x = make_rows(Filling::ordinary, 4 * cols, 5);
  QuantizeCall call;
  call.x = view_of(x.data(), 4, cols);
  call.spec = quant_spec_from_words("nvfp4");
  for (const size_t place : {0u, 15u, 1024u, 5000u, 8191u, 8192u, 12300u, 16383u, 16384u, 16400u, 20700u, 20735u}) {
    for (const float largest : {-1e4f, 1e5f, std::numeric_limits<float>::infinity()}) {
      const float before = x[place];
      x[place] = largest;
      for (const Backend* fast : backends) {
        Quantized got;
        fast->quantize(call, got);
        INFO(fast->name() << " at " << place << ": " << largest);
        if (std::isfinite(largest)) CHECK(got.amax == std::fabs(largest));
        CHECK(std::isfinite(got.amax));
      }
      x[place] = before;
    }
  }
}

struct PanelShape {
  int64_t rows, cols;
  bool transposed;
  int hadamard;
};
constexpr PanelShape panel_shapes[] = {{48, 96, false, 0}, {48, 96, true, 0},  {37, 160, false, 0},
                                       {37, 144, true, 0}, {20, 75, false, 0}, {32, 128, false, 64},
                                       {19, 80, true, 16}, {16, 256, false, 0}};

// Each side of a product with unit rows for the other: the result is the decoded operand, element by element.
TEST_CASE("panels of a product equal the reference", "[quick]") {
  const std::vector<const Backend*> backends = test::backends_under_test();
  uint32_t seed = 70;
  for (const char* words : specs) {
    for (const PanelShape& shape : panel_shapes) {
      for (const Filling filling : {Filling::ordinary, Filling::sparse, Filling::dense}) {
        const std::vector<float> x = make_rows(filling, shape.rows * shape.cols, ++seed);
        const float* data = x.data() + seed % 3;
        MultiplyCall product;
        QuantizeCall& own = seed % 2 == 0 ? product.a : product.b;
        QuantizeCall& units = seed % 2 == 0 ? product.b : product.a;
        own.x = shape.transposed ? view_of(data, shape.cols, shape.rows).transposed()
                                 : view_of(data, shape.rows, shape.cols);
        own.spec = quant_spec_from_words(words);
        own.hadamard = {shape.hadamard, HadamardSigns::per_step, HadamardNormalise::sqrt};
        own.place = {9, 4, seed};
        own.held_amax = 41.0f;
        own.row_offset = own.spec.tensor_scale == TensorScale::none ? seed % 7 : 0;
        const int64_t k = hadamard_padded(own.hadamard, shape.cols);
        std::vector<float> eye(static_cast<size_t>(k * k), 0.0f);
        for (int64_t i = 0; i < k; ++i) eye[static_cast<size_t>(i * k + i)] = 1.0f;
        units.x = view_of(eye.data(), k, k);
        std::vector<float> expected(static_cast<size_t>(shape.rows * k), -7.0f);
        product.c = expected.data();
        product.c_stride = product.b.x.rows;
        Dispatcher("reference").multiply(product);
        for (const Backend* fast : backends) {
          std::vector<float> got(expected.size(), -7.0f);
          product.c = got.data();
          if (!fast->multiply(product)) continue;
          INFO(fast->name() << " " << words << " shape " << shape.rows << "x" << shape.cols << " transposed "
                            << shape.transposed << " hadamard " << shape.hadamard << " filling "
                            << static_cast<int>(filling) << " seed " << seed);
          REQUIRE(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
        }
      }
    }
  }
}

TEST_CASE("runs give the same bits with any number of threads", "[quick]") {
  const int64_t rows = 515;
  const int64_t cols = 544;
  const std::vector<const Backend*> backends = test::backends_under_test();
  const std::vector<float> x = make_rows(Filling::sparse, rows * cols, 3);
  for (const char* words : {"mxfp4", "mxfp4,rounding=stochastic", "nvfp4", "te_nvfp4,rounding=stochastic", "mxfp8"}) {
    QuantizeCall call;
    call.x = view_of(x.data(), rows, cols);
    call.spec = quant_spec_from_words(words);
    Quantized expected;
    reference_backend().quantize(call, expected);
    for (const Backend* fast : backends) {
      for (const int threads : {1, 2, 3}) {
        call.threads = threads;
        if (!fast->supports_quantize(call)) continue;
        Quantized got = poisoned(1);
        fast->quantize(call, got);
        INFO(fast->name() << " " << words << " threads " << threads);
        CHECK(same(got, expected));
      }
    }
  }
}

}  // namespace
}  // namespace fp4
