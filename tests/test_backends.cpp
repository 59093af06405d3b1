// Every fast backend against the reference on named specs: same bits on drawn operands, or a refusal, which is counted
// and shown. ctest runs this program with the gpu backend alone, too.
#include <sstream>

#include "tests/support/drawn_operands.h"
#include "tests/support/share.h"

namespace fp4 {
namespace {

using namespace test;

// What runs along a row know and what lanes alone do, preset by preset: blocks of every shape, formats without scales.
constexpr const char* specs = R"(
mxfp4 mxfp4,scale_rule=ceil mxfp4,scale_rule=rceil,negative_zero=drop mxfp4,scale_rule=even,rounding=nearest_away
mxfp4,scale_rule=uos,nonfinite=saturate mxfp4,scale_rule=nearest_log2,block=16 mxfp4,scale_rule=amax,block=64
mxfp4,block=16,rounding=toward_positive,zero_block=limit mxfp4,rounding=toward_zero,prescale=0.75,scale_floor=1
mxfp4,element=e1m2 mxfp4,element=e1m2,scale_rule=ceil,rounding=toward_negative mxfp4,tensor_scale=current
mxfp4,arithmetic=te mxfp4,rounding=stochastic mxfp4,rounding=stochastic,scale_rule=rceil,negative_zero=drop
mxfp4,rounding=stochastic,block=16,prescale=0.75 mxfp4,rounding=stochastic,random_bits=16
mxfp4,rounding=stochastic_midpoint mxfp4,rounding=stochastic_midpoint,prescale=0.75,scale_rule=even
mxfp4,scale_rule=rceil mxfp4,scale_rule=even mxfp4,scale_rule=uos mxfp4,scale_rule=nearest_log2
mxfp4,scale_rule=quest_floor mxfp4,block=8,rounding=nearest_away mxfp4,block=16,rounding=toward_positive
mxfp4,block=64,rounding=toward_negative mxfp4,block=128,rounding=away_from_zero
mxfp4,rounding=nearest_toward_zero,negative_zero=drop mxfp4,rounding=toward_zero,prescale=0.75
mxfp4,rounding=stochastic,random_bits=4,scale_rule=rceil mxfp4,rounding=stochastic,random_bits=16,prescale=0.75
mxfp4,rounding=stochastic,random_bits=32 mxfp4,rounding=stochastic_truncated,prescale=0.75 mxfp4,nonfinite=saturate
mxfp4,zero_block=limit mxfp4,scale_floor=1 mxfp4,element=e1m2,scale_rule=ceil mxfp4,element=e3m0
mxfp4,element=e2m3,rounding=stochastic mxfp4,scale_rule=encode mxfp4,scale_rule=amax
mxfp4,tensor_scale=current,scale_rule=nearest_log2 mxfp4,block=32x32 mxfp4,block=8x8,rounding=stochastic
mxfp4,block=32x32,scale_rule=quest_floor mxfp4,block=row,scale_rule=quest_nearest,nonfinite=saturate
mxfp4,arithmetic=te,rounding=away_from_zero mxfp4,arithmetic=divide,prescale=0.75
mxfp4,rounding=stochastic,random_bits=4 mxfp4,rounding=stochastic_midpoint,random_bits=16
mxfp4,rounding=stochastic_midpoint,random_bits=32,negative_zero=drop mxfp4,rounding=stochastic_truncated
mxfp4,rounding=stochastic_truncated,random_bits=32,block=8 mxfp4,tensor_scale=outer128,arithmetic=divide
mxfp4,element=e3m0,rounding=nearest_away mxfp4,element=e3m0,rounding=nearest_toward_zero mxfp4,block=8
mxfp4,block=128,scale_rule=amax mxfp4,scale_rule=quest_nearest mxfp4,scale_rule=quest_floor,tensor_scale=current
mxfp4,scale_rule=mse mxfp4,scale_rule=mse,block=8 mxfp4,scale_rule=mse,block=16,scale_floor=0.25 mxfp4,block=16x16
mxfp4,block=32x32,rounding=stochastic mxfp4,block=8x8 mxfp4,block=row mxfp4,block=row,scale=fp32,scale_rule=amax
mxfp4,block=tensor,rounding=stochastic,random_bits=4 mxfp4,scale=none,rounding=nearest_away
nvfp4,rounding=stochastic_midpoint nvfp4 nvfp4,tensor_scale=none nvfp4,block=32,negative_zero=drop
nvfp4,rounding=away_from_zero,prescale=0.75 nvfp4,rounding=nearest_toward_zero,tensor_scale=hold
nvfp4,rounding=stochastic nvfp4,rounding=stochastic,tensor_scale=none,block=32 nvfp4,scale_rounding=stochastic
nvfp4,arithmetic=divide nvfp4,element=e1m2,zero_scale=one nvfp4,rounding=stochastic,random_bits=32
nvfp4,scale=fp32,rounding=toward_positive,prescale=0.75 nvfp4,scale=fp32,rounding=stochastic_midpoint,random_bits=32
nvfp4,arithmetic=reciprocal,rounding=stochastic_midpoint,random_bits=16
nvfp4,tensor_scale=none,scale_rounding=toward_positive nvfp4,scale_rounding=stochastic,zero_scale=one
nvfp4,scale_rule=mse nvfp4,scale=ue5m2,scale_rule=floor nvfp4,scale=ue3m4,scale_rule=nearest_log2
nvfp4,scale=ue2m5,scale_rule=even nvfp4,scale=ue1m6 nvfp4,scale=bf16 nvfp4,scale=fp32
nvfp4,scale=fp32,block=row,tensor_scale=none nvfp4,scale=fp32,block=tensor,tensor_scale=none,element=e1m2
nvfp4,scale=fp32,block=tensor,tensor_scale=none,element=e3m0,rounding=stochastic nvfp4,block=16x16,arithmetic=te
nvfp4,block=64x64,nonfinite=saturate nvfp4,block=8x8,scale_rule=mse
nvfp4,block=8x8,scale_rule=mse,scale_rounding=stochastic,random_bits=32
nvfp4,block=16x16,scale_rule=four_over_six,scale=fp32,scale_rounding=toward_positive
nvfp4,rounding=stochastic,random_bits=4 nvfp4,rounding=stochastic,random_bits=16,negative_zero=drop
nvfp4,rounding=stochastic_truncated nvfp4,rounding=stochastic_midpoint,random_bits=16,prescale=0.75
nvfp4,rounding=stochastic,random_bits=4,block=8 nvfp4,scale_rounding=stochastic,random_bits=4
nvfp4,scale_rounding=stochastic,random_bits=16,rounding=stochastic nvfp4,scale_rounding=stochastic,random_bits=32
nvfp4,scale_rounding=toward_positive nvfp4,scale=bf16,scale_rule=encode,rounding=stochastic
nvfp4,scale=bf16,arithmetic=te,rounding=toward_zero nvfp4,scale=fp32,rounding=away_from_zero
nvfp4,scale=fp32,scale_rule=encode nvfp4,scale=fp32,scale_rule=encode,prescale=0.75,tensor_scale=none
nvfp4,scale=fp32,arithmetic=divide,element=e1m2 nvfp4,scale_rule=encode,arithmetic=divide nvfp4,tensor_scale=outer128
nvfp4,tensor_scale=outer128,block=8,rounding=stochastic nvfp4,tensor_scale=outer128,block=32,scale_rounding=stochastic
nvfp4,arithmetic=divide,prescale=0.75 nvfp4,arithmetic=divide,rounding=stochastic,random_bits=16
nvfp4,arithmetic=reciprocal nvfp4,arithmetic=reciprocal,rounding=toward_positive,zero_scale=one
nvfp4,element=e3m0,negative_zero=drop nvfp4,element=e3m0,rounding=toward_negative nvfp4,element=e3m0,rounding=stochastic
nvfp4,element=e4m3,rounding=nearest_away nvfp4,element=e4m3,rounding=stochastic,random_bits=16
nvfp4,element=e5m2,rounding=nearest_toward_zero nvfp4,element=e5m2,rounding=away_from_zero
nvfp4,element=e2m3,rounding=toward_positive nvfp4,element=e3m2,rounding=toward_zero nvfp4,block=8
nvfp4,block=8,rounding=stochastic,random_bits=32 nvfp4,block=8,arithmetic=divide nvfp4,block=64
nvfp4,scale_rule=mse,block=32,rounding=stochastic nvfp4,scale_rule=mse,tensor_scale=outer128,zero_scale=one
nvfp4,scale_rule=mse,block=8,scale_rounding=toward_positive nvfp4,scale_rule=four_over_six,element=e3m2
nvfp4,block=16x16,scale_rounding=stochastic,rounding=stochastic,random_bits=4
nvfp4,block=16x16,scale=fp32,rounding=away_from_zero nvfp4,block=row,scale=bf16,rounding=stochastic
mxfp4,arithmetic=multiply,tensor_scale=outer128,factor_format=mantissa8
mxfp4,arithmetic=multiply,tensor_scale=outer128,factor_format=mantissa8,rounding=stochastic,block=16,prescale=0.75
nvfp4,scale_rule=ms_eden nvfp4,scale_rule=ms_eden,random_bits=32,rounding=stochastic,zero_scale=one
nvfp4,scale_rule=ms_eden,tensor_scale=none,scale=ue5m3,block=32,random_bits=4
te_nvfp4,rounding=stochastic_midpoint te_nvfp4 te_nvfp4,rounding=stochastic te_nvfp4,block=32,tensor_scale=none
te_nvfp4,element=e4m3 te_nvfp4,tensor_scale=outer128,block=128 te_nvfp4,prescale=0.75,rounding=toward_negative
te_nvfp4,block=8 te_nvfp4,block=32x32 te_nvfp4,tensor_scale=outer128,block=64
ue5m3fp4,scale=ue5m3_61440,arithmetic=te,zero_scale=one,tensor_scale=hold,rounding=stochastic_midpoint ue5m3fp4
ue5m3fp4,rounding=stochastic ue5m3fp4,scale=ue5m3_61440,arithmetic=te,zero_scale=one
ue5m3fp4,scale=ue5m3_61440,arithmetic=te,zero_scale=one,tensor_scale=hold ue5m3fp4,scale=ue5m3_122880,nonfinite=saturate
ue5m3fp4,block=8 ue5m3fp4,block=8,scale_rule=mse ue5m3fp4,block=8,element=e2m3,rounding=toward_zero
ue5m3fp4,element=e3m2,rounding=stochastic_truncated ue5m3fp4,scale_rule=mse
ue5m3fp4,scale_rule=mse,scale_floor=0.01,zero_block=limit graphcore_2509_encode
graphcore_2509_encode,rounding=stochastic graphcore_2509_encode,scale=fp32,rounding=stochastic
graphcore_2509_encode,rounding=stochastic_truncated,random_bits=32
graphcore_2509_encode,arithmetic=divide,rounding=stochastic,random_bits=16 fouroversix
fouroversix,rounding=stochastic,tensor_scale=none fouroversix,block=32,scale=ue5m3,tensor_scale=none
fouroversix,zero_scale=one,negative_zero=drop fouroversix,block=row fouroversix,block=tensor,rounding=stochastic
alto_nvfp4,block=16x16 bf16 bf16,rounding=stochastic,random_bits=16 bf16,rounding=toward_negative
compressed_tensors_mxfp4 compressed_tensors_mxfp4,prescale=0.75 compressed_tensors_mxfp4,element=e2m3,block=row
compressed_tensors_nvfp4,nonfinite=saturate
fbgemm_mx4_even,nonfinite=saturate fbgemm_mx4_nearest,tensor_scale=current fp16 fp16,rounding=stochastic
fp16,rounding=nearest_away,negative_zero=drop fp16,rounding=stochastic_midpoint,random_bits=32 fp32
ggml_nvfp4,nonfinite=saturate microxcaling_even_bf16 mlx_nvfp4,nonfinite=saturate modelopt_mxfp4,nonfinite=saturate
modelopt_nvfp4,element=e4m3 mxfp6_e2m3,rounding=toward_zero,negative_zero=drop mxfp6_e3m2 mxfp8
mxfp8,element=e5m2,block=16,rounding=stochastic mxfp8,rounding=stochastic,random_bits=16 mxfp8,rounding=toward_negative
mxfp8,element=e5m2,rounding=stochastic_midpoint,random_bits=32 mxfp8,block=8 mxfp8,block=row,scale_rule=quest_floor
mxfp8,scale=none mxfp8,scale=none,element=e5m2,rounding=stochastic,random_bits=32 mxfp8,element=e5m2,rounding=stochastic
pytorch_mxfp4,element=e5m2 te_46_mae,block=16x16 torchao_nvfp4 torchao_nvfp4,nonfinite=saturate
vllm_nvfp4,tensor_scale=hold vllm_nvfp4,rounding=stochastic
)";

TEST_CASE("operands and products of named specs equal the reference", "[quick]") {
  constexpr int operands_of_a_spec = 64;
  Comparison backends;
  std::istringstream list(specs);
  uint32_t seed = 0;
  for (std::string words; list >> words;) {
    const QuantSpec spec = quant_spec_from_words(words);
    for (int i = 0; i < operands_of_a_spec; ++i) {
      Random random(++seed);
      const char* other = one_of(random, {"mxfp4", "ue5m3fp4,block=16x16", "nvfp4,tensor_scale=outer128", "mxfp8"});
      const QuantSpec second = pick(random, 3) == 0 ? quant_spec_from_words(other) : spec;
      if (next_case_runs(large_share()))
        backends.drawn(spec, second, words + " seed " + std::to_string(seed) + ": ", random);
    }
  }
  backends.report("operands and products");
}

TEST_CASE("products under every accumulator equal the reference", "[quick]") {
  Comparison backends;
  uint32_t seed = 0;
  for (const char* words :
       {"mxfp4", "mxfp8", "nvfp4,rounding=stochastic", "nvfp4,scale=fp32,prescale=0.75", "mxfp8,element=e5m2",
        "mxfp6_e3m2,block=16", "mxfp4,block=tensor", "te_nvfp4", "nvfp4,tensor_scale=outer128",
        "mxfp8,tensor_scale=outer128,block=64", "graphcore_2509_encode"}) {
    const QuantSpec spec = quant_spec_from_words(words);
    for (const AccumulatorInfo& info : accumulator_table) {
      if (!takes(info.row, true, format_of(spec.element))) continue;
      for (int i = 0; i < 48; ++i) {
        Random random(++seed);
        if (!next_case_runs(large_share())) continue;
        const HadamardSpec h = drawn_hadamard(random);
        const int64_t k = 1 + pick(random, 170);
        const Drawn a = drawn_operand(spec, 1 + pick(random, 60), k, h, random);
        const Drawn b = drawn_operand(spec, 1 + pick(random, 50), k, h, random);
        MultiplyCall call = {a.call, b.call, {info.row, h.product_divisor()}};
        backends.product(call, "seed " + std::to_string(seed) + ": ", 3);
      }
    }
  }
  backends.report("products");
}

// A scale of few ulps times the quantum of a product would lose bits, although its product with a huge one is normal.
TEST_CASE("products of huge and of subnormal real scales equal the reference", "[quick]") {
  Random random(5);
  std::vector<float> huge(9 * 96);
  std::vector<float> subnormal(17 * 96);
  for (float& x : huge)
    x = pick(random, 3) == 0 ? 0.0f : std::ldexp(static_cast<float>(pick(random, 4096)) - 2048.0f, 112);
  for (float& x : subnormal) x = float_of((random() & 0x80000000u) | random() % 4096);
  Comparison backends;
  for (const char* words :
       {"mxfp4,scale=fp32,scale_rule=amax", "mxfp4,scale=fp32,scale_rule=amax,block=8",
        "mxfp4,scale=fp32,scale_rule=amax,block=row", "mxfp8,scale=fp32,scale_rule=amax", "mxfp4"}) {
    const QuantSpec spec = quant_spec_from_words(words);
    for (const AccumulatorInfo& info : accumulator_table) {
      if (!takes(info.row, true, format_of(spec.element))) continue;
      const QuantizeCall a = {.x = view_of(huge.data(), 9, 96), .spec = spec};
      const QuantizeCall b = {.x = view_of(subnormal.data(), 17, 96), .spec = spec};
      backends.product({a, b, {info.row}}, "huge and subnormal: ");
      backends.product({b, a, {info.row}}, "subnormal and huge: ");
    }
  }
}

TEST_CASE("fast Hadamards equal the reference", "[quick]") {
  const std::vector<const Backend*> backends = backends_under_test();
  for (uint32_t seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    HadamardSpec h = drawn_hadamard(random);
    h.size = hadamard_sizes[seed % std::size(hadamard_sizes)];
    const bool inverse = seed % 2 == 0;
    const int64_t cols = one_of(random, {300, 512});
    // The sign of a NaN must not leave: signs come last in the inverse.
    std::vector<float> x = drawn_values(33 * cols, random);
    for (const size_t at : {40u, 1000u, 1020u})
      if (seed % 3 == 0) x[at] = one_of(random, {NAN, INFINITY, -INFINITY});
    std::vector<float> got(static_cast<size_t>(33 * hadamard_padded(h, cols)), -7.0f);
    std::vector<float> expected = got;
    reference_backend().hadamard(view_of(x.data(), 33, cols), h, {1, 2, 3}, inverse, expected.data(), 1);
    for (const Backend* fast : backends) {
      if (!fast->supports_hadamard(h)) continue;
      INFO(fast->name() << " seed " << seed);
      fast->hadamard(view_of(x.data(), 33, cols), h, {1, 2, 3}, inverse, got.data(), 1);
      CHECK(same_floats(got, expected));
    }
  }
}

}  // namespace
}  // namespace fp4
