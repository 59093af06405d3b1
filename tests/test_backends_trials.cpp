// Do the short ways of the fast quantisers (sums of errors in fp32 where they decide, quotients as pairs of floats,
// exponents of variances in lanes) end in the reference's bits where they have to give up? Inputs sit on ties.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "fp4/block.h"
#include "fp4/rng.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/gpu/gpu_backend.h"
#include "tests/support/backends_under_test.h"
#include "tests/support/same_floats.h"

using namespace fp4;

namespace {

float uniform(uint64_t i) { return random_uniform({31, 5, 0}, i); }

// Rows of 64: blocks whose two trials err alike, constant and nearly constant blocks, multiples of quarter steps, few
// elements among zeros; with these exponents of magnitudes.
std::vector<float> tied_rows(int rows, const std::array<int, 8>& exponents) {
  std::vector<float> x(static_cast<size_t>(rows) * 64);
  constexpr float levels[] = {0.0f, 0.25f, 0.5f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 4.5f, 5.0f, 6.0f};
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < 64; ++c) {
      const auto i = static_cast<uint64_t>(r * 64 + c);
      float v = uniform(2 * i);
      switch (r % 8) {
        case 0: v = levels[static_cast<int>(v * 11.0f)]; break;
        case 1: v = 1.0f; break;
        case 2: v = 1.0f + (c == 7 ? 0x1p-23f : 0.0f); break;
        case 3: v = levels[c % 2 == 0 ? 10 : 8]; break;
        case 4: v = std::nextafter(levels[static_cast<int>(v * 11.0f)], v < 0.5f ? 0.0f : 9.0f); break;
        case 5: v = c % 16 == 3 ? 6.0f : (c % 16 == 9 ? v : 0.0f); break;
        case 6: v = v < 0.5f ? 4.0f : 3.0f; break;
        default: break;
      }
      if (uniform(2 * i + 1) < 0.5f && r % 8 != 1) v = -v;
      x[static_cast<size_t>(i)] = std::ldexp(v, exponents[static_cast<size_t>(r / 8 % 8)]);
    }
  return x;
}

struct Range {
  float first, last;
};

// Turns the largest element of a block, somewhere in the range, until two trial scales err alike but for the last bits:
// where the chosen code changes between two neighbouring floats. false: it never changes.
bool turn_to_a_tie(const Quantizer& q, TensorFactor factor, float* block, int n, int largest, Range range, bool upper) {
  const auto code_for = [&](float v) {
    block[largest] = v;
    return block_scale_code(q, {block, 0, 1, 1, n, n}, factor, 0);
  };
  constexpr int steps = 16;
  const float step = (range.last - range.first) / steps;
  for (int i = 0; i < steps; ++i) {
    float low = range.first + static_cast<float>(i) * step, high = low + step;
    const uint32_t code = code_for(low);
    if (code == code_for(high)) continue;
    while (bits_of(high) - bits_of(low) > 1) {
      const float middle = float_of(bits_of(low) + (bits_of(high) - bits_of(low)) / 2);
      (code_for(middle) == code ? low : high) = middle;
    }
    block[largest] = upper ? high : low;
    return true;
  }
  return false;
}

constexpr int trial_rows = 32, trial_cols = 128;

TensorFactor factor_of(const QuantSpec& spec, const Quantizer& q, float held_amax) {
  if (spec.tensor_scale != TensorScale::hold) return {};
  return tensor_factor(q, held_amax);
}

// Rows of blocks, as they lie and down the columns.
void check_scales(const char* words, const std::vector<float>& x, float held_amax) {
  std::vector<float> columns(x.size());
  for (int r = 0; r < trial_rows; ++r)
    for (int c = 0; c < trial_cols; ++c)
      columns[static_cast<size_t>(c * trial_rows + r)] = x[static_cast<size_t>(r * trial_cols + c)];
  QuantizeCall call;
  call.x = view_of(x.data(), trial_rows, trial_cols);
  call.spec = quant_spec_from_words(words);
  call.held_amax = held_amax;
  Quantized expected;
  reference_backend().quantize(call, expected);
  for (const Backend* fast : test::backends_under_test()) {
    for (const bool by_rows : {true, false}) {
      call.x = by_rows ? view_of(x.data(), trial_rows, trial_cols)
                       : view_of(columns.data(), trial_cols, trial_rows).transposed();
      if (!fast->supports_quantize(call)) continue;
      Quantized got;
      fast->quantize(call, got);
      INFO(fast->name() << " " << words << (by_rows ? " by rows" : " by columns"));
      CHECK(got.scales == expected.scales);
      CHECK(got.codes == expected.codes);
      CHECK(got.real_scales == expected.real_scales);
    }
  }
}

}  // namespace

TEST_CASE("trials that err alike but for the last bits are decided as the reference does", "[quick]") {
  for (const char* words : {"ue5m3fp4,scale_rule=mse", "mxfp4,scale_rule=mse", "mxfp4,scale_rule=mse,block=8",
                            "nvfp4,scale_rule=mse,tensor_scale=none,block=32", "fouroversix,tensor_scale=none",
                            "ue5m3fp4,scale_rule=mse,block=8", "nvfp4,scale_rule=mse,block=8,tensor_scale=hold",
                            "nvfp4,scale_rule=mse,tensor_scale=hold", "mxfp4,scale_rule=mse,tensor_scale=hold",
                            "nvfp4,scale_rule=mse,tensor_scale=hold,scale=bf16", "fouroversix,tensor_scale=hold",
                            "fouroversix,tensor_scale=hold,block=32", "te_46_mae,tensor_scale=hold",
                            "te_46_mae_fast,tensor_scale=hold", "flashinfer_46_mae,tensor_scale=hold",
                            "fouroversix_code,tensor_scale=hold", "te_46_mae,tensor_scale=hold,error=max",
                            "fouroversix,tensor_scale=hold,error=mae", "fouroversix,tensor_scale=hold,error=max"}) {
    const QuantSpec spec = quant_spec_from_words(words);
    const Quantizer q = resolve(spec);
    constexpr float held_amax = 37.0f;
    const int n = spec.block.size;
    std::vector<float> x(trial_rows * trial_cols);
    int ties = 0;
    for (int i = 0; i < trial_rows * trial_cols; i += n) {
      float* block = x.data() + i;
      for (int k = 0; k < n; ++k) block[k] = 2.0f * uniform(static_cast<uint64_t>(i + k)) - 1.0f;
      ties += turn_to_a_tie(q, factor_of(spec, q, held_amax), block, n, i / n % n, {1.0f, 2.0f}, i / n % 2 == 0);
    }
    CHECK(ties > trial_rows * trial_cols / n / 2);
    check_scales(words, x, held_amax);
  }
}

// All of a block lies near a grid that both trials nearly share, as scales of 8 bits and more allow it: errors are
// small beside elements, and how s*g and decoded values are rounded decides.
TEST_CASE("small errors of trials are decided as the reference does", "[quick]") {
  for (const char* words :
       {"nvfp4,scale_rule=mse,tensor_scale=hold,scale=bf16",
        "nvfp4,scale_rule=mse,tensor_scale=hold,scale=bf16,block=8", "fouroversix,tensor_scale=hold,scale=bf16",
        "fouroversix,tensor_scale=hold,scale=bf16,block=32"}) {
    const QuantSpec spec = quant_spec_from_words(words);
    const Quantizer q = resolve(spec);
    const int n = spec.block.size;
    int ties = 0;
    for (int step = 0; step < 12; ++step) {
      const float held_amax = 29.0f + static_cast<float>(step);
      std::vector<float> x(trial_rows * trial_cols);
      for (int i = 0; i < trial_rows * trial_cols; i += n) {
        float* block = x.data() + i;
        const float top = 1.0f + uniform(static_cast<uint64_t>(step * 7919 + i));
        for (int k = 0; k < n; ++k) {
          const float u = uniform(static_cast<uint64_t>(step * 65537 + i + k));
          block[k] = std::ldexp(top * (1.0f - 0x1p-8f * u), -(k % 3));
        }
        ties += turn_to_a_tie(q, factor_of(spec, q, held_amax), block, n, i / n % n, {top, top * 1.015625f},
                              i / n % 2 == 0);
      }
      check_scales(words, x, held_amax);
    }
    CHECK(ties > trial_rows * trial_cols / n);
  }
}

// Scales of 8 and 12 sixteenths, where the maximum asks for 10: six of the one is four of the other. All is decoded
// alike, whatever s*g rounds to, so that the first of both trials in the order of block.h stays.
TEST_CASE("of trials that decode alike the first stays", "[quick]") {
  for (const char* words : {"nvfp4,scale_rule=mse,tensor_scale=hold", "nvfp4,scale_rule=mse,tensor_scale=hold,block=8",
                            "ue5m3fp4,scale_rule=mse,block=8", "mxfp4,scale_rule=mse,tensor_scale=hold,block=8"}) {
    const QuantSpec spec = quant_spec_from_words(words);
    const Quantizer q = resolve(spec);
    const int n = spec.block.size;
    constexpr float levels[] = {6.0f, 6.0f, 3.0f, 6.0f, 1.5f, 6.0f, 0.0f};
    for (int step = 0; step < 40; ++step) {
      const float held_amax = 2000.0f + 13.0f * static_cast<float>(step);
      const float g = factor_of(spec, q, held_amax).g;
      std::vector<float> x(trial_rows * trial_cols);
      for (int i = 0; i < trial_rows * trial_cols; ++i) {
        const auto at = static_cast<uint64_t>(step * 65537 + i);
        const int block = i / n;
        const float v =
            i % n == block % n ? 7.25f + 0.2f * uniform(at) : levels[i % 7] * (1.0f + 0x1p-8f * uniform(at));
        x[static_cast<size_t>(i)] = std::ldexp(i % 2 == 0 ? v : -v, block % 5) * g;
      }
      check_scales(words, x, held_amax);
    }
  }
}

// Quotients of maxima by a tensor's factor within three units of the last place of M*sqrt(2)*2^e, where nearest_log2
// moves up: no float is that number, so one whose last bit is odd does not tell on which side of it a quotient lies.
TEST_CASE("maxima beside an irrational threshold get the reference's scales", "[quick]") {
  for (const char* words : {"mxfp4,scale_rule=nearest_log2,tensor_scale=hold",
                            "mxfp4,scale_rule=nearest_log2,tensor_scale=hold,element=e3m0",
                            "mxfp4,scale_rule=nearest_log2,tensor_scale=hold,element=e2m3,block=16",
                            "mxfp8,scale_rule=nearest_log2,tensor_scale=hold",
                            "nvfp4,scale=ue5m3,scale_rule=nearest_log2,tensor_scale=hold"}) {
    const QuantSpec spec = quant_spec_from_words(words);
    const Quantizer q = resolve(spec);
    const int n = spec.block.size;
    const double threshold = static_cast<double>(decode(q.element, q.element.largest_code)) * std::sqrt(2.0);
    for (int step = 0; step < 20; ++step) {
      const float held_amax = 29.0f + 1.37f * static_cast<float>(step);
      const double g = static_cast<double>(factor_of(spec, q, held_amax).g);
      std::vector<float> x(trial_rows * trial_cols);
      for (int i = 0; i < trial_rows * trial_cols; ++i) {
        const int block = i / n;
        const auto at = static_cast<float>(std::ldexp(threshold * g, block / 7 % 9 - 4));
        const float amax = float_of(bits_of(at) + static_cast<uint32_t>(block % 7 - 3));
        x[static_cast<size_t>(i)] = i % n == block % n ? amax : 0.5f * amax * uniform(static_cast<uint64_t>(i));
      }
      check_scales(words, x, held_amax);
    }
  }
}

TEST_CASE("fast trials, quotients and variances decide as the reference does", "[quick]") {
  const int rows = 64 * 6;
  // The ends of fp32; and where block scales are subnormal, on either side of the smallest.
  const std::vector<float> far = tied_rows(rows, {0, 1, -20, -60, -115, -138, 60, 118});
  const std::vector<float> near = tied_rows(rows, {0, -9, -12, -13, -14, -15, -16, -18});
  const char* words[] = {"te_46_mae",
                         "te_46_mae_fast",
                         "flashinfer_46_mae",
                         "flashinfer_46_mae,error=max,element=e2m3",
                         "fouroversix_code",
                         "fouroversix,error=mae,payload=te,arithmetic=fouroversix",
                         "fouroversix,error=max",
                         "quartet_mxfp4",
                         "quartet_mxfp4,tensor_scale=current",
                         "vllm_nvfp4",
                         "alto_nvfp4",
                         "compressed_tensors_nvfp4",
                         "fouroversix",
                         "fouroversix,tensor_scale=none",
                         "fouroversix,rounding=stochastic",
                         "fouroversix,block=128,scale=ue5m3",
                         "nvfp4,rounding=stochastic",
                         "nvfp4,rounding=stochastic,random_bits=16,prescale=0.75",
                         "nvfp4,element=e2m3",
                         "nvfp4,element=e4m3,rounding=stochastic",
                         "graphcore_2509_encode",
                         "graphcore_2509_encode,rounding=stochastic,random_bits=16",
                         "graphcore_2509_encode,scale=e8m0,block=32,prescale=0.75",
                         "mxfp4,scale_rule=quest_nearest",
                         "mxfp4,scale_rule=quest_floor,tensor_scale=current",
                         "nvfp4,scale_rule=quest_nearest",
                         "mxfp8,scale_rule=quest_nearest"};
  const std::vector<const Backend*> backends = test::backends_under_test();
  int compared = 0;
  for (const char* spec : words)
    for (const std::vector<float>& x : {far, near})
      // Eight rows at a time: tensor scales follow the magnitude; and all rows under one tensor scale.
      for (int count : {8, rows})
        for (int row = 0; row < rows; row += count) {
          QuantizeCall call;
          call.x = view_of(x.data() + row * 64, count, 64);
          call.spec = quant_spec_from_words(spec);
          call.place = {7, 1, static_cast<uint32_t>(row)};
          // The gemm's panels have ways of their own: the product with the identity shows the values.
          std::vector<float> identity(64 * 64), c(static_cast<size_t>(count) * 64), d = c;
          for (size_t i = 0; i < 64; ++i) identity[i * 65] = 1.0f;
          std::vector<float> columns(static_cast<size_t>(count) * 64);
          for (int r = 0; r < count; ++r)
            for (int k = 0; k < 64; ++k) columns[static_cast<size_t>(k * count + r)] = call.x.data[r * 64 + k];
          MultiplyCall product = {call, call, {fp32_block}, c.data(), 64};
          product.b.x = view_of(identity.data(), 64, 64);
          product.b.spec = quant_spec_from_words("mxfp4");
          Quantized expected, b;
          reference_backend().quantize(call, expected);
          reference_backend().quantize(product.b, b);
          reference_backend().gemm(expected, b, product.options, d.data(), 64);
          for (const Backend* fast : backends) {
            INFO(fast->name() << " " << spec << " rows " << row << " of " << count);
            REQUIRE((fast->supports_quantize(call) || fast == &gpu_backend()));
            if (!fast->supports_quantize(call)) continue;
            Quantized got;
            fast->quantize(call, got);
            REQUIRE(got.codes == expected.codes);
            REQUIRE(got.scales == expected.scales);
            for (const bool by_rows : {true, false}) {
              product.a.x = by_rows ? call.x : view_of(columns.data(), 64, count).transposed();
              if (!fast->multiply(product)) continue;
              REQUIRE(test::same_floats(c, d));
              ++compared;
            }
          }
        }
  CHECK((compared > 0 || backends.empty()));
}
