#include <catch2/catch.hpp>

#include "src/arith/known_words.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/gpu/gpu_backend.h"
#include "src/gpu/pipeline.h"
#include "tests/support/gpu_cases.h"
#include "tests/support/share.h"

namespace fp4::test {
namespace {

// Less than a tile, several tiles with ragged ends, long rows.
constexpr Shape shapes[] = {{3, 37}, {70, 64}, {19, 300}};

std::string difference(const Quantized& got, const Quantized& expected) {
  if (got.codes != expected.codes) {
    size_t i = 0;
    while (i < got.codes.size() && got.codes[i] == expected.codes[i]) ++i;
    return "code byte " + std::to_string(i) + " of " + std::to_string(expected.codes.size());
  }
  if (got.scales != expected.scales) return "scales";
  if (!same_floats(got.real_scales, expected.real_scales)) return "real scales";
  if (!same_floats(got.tensor_scale, expected.tensor_scale)) return "tensor scale";
  return bits_of(got.amax) == bits_of(expected.amax) ? "" : "amax";
}

class Comparison {
 public:
  explicit Comparison(gpu::Device& device) : backend_(gpu::make_backend(&device)) {}

  const Backend& backend() const { return *backend_; }

  void quantize(const QuantizeCall& call, const std::string& what) {
    if (!next_case_runs()) return;
    if (!is_known(call.spec)) {  // the core quantises it alone
      CHECK(!backend_->supports_quantize(call));
      return;
    }
    REQUIRE(backend_->supports_quantize(call));
    Quantized got;
    Quantized expected;
    backend_->quantize(call, got);
    reference_backend().quantize(call, expected);
    const std::string where = difference(got, expected);
    if (!where.empty()) FAIL_CHECK(what << ": " << where);
    std::vector<float> decoded(static_cast<size_t>(expected.rows * expected.cols), -7.0f);
    std::vector<float> truth = decoded;
    backend_->dequantize(expected, decoded.data(), 1);
    reference_backend().dequantize(expected, truth.data(), 1);
    if (!same_floats(decoded, truth)) FAIL_CHECK(what << ": decoded values");
  }

 private:
  std::unique_ptr<Backend> backend_;
};

void compare_quantisers(gpu::Device& device, const std::string& words, bool all_shapes) {
  Comparison comparison(device);
  const QuantSpec spec = quant_spec_from_words(words);
  for (const auto& kind : golden::input_kind_table) {
    for (const Shape& shape : shapes) {
      if (!all_shapes && &shape != &shapes[2]) continue;
      const std::vector<float> x = make_input(kind.id, spec, shape.rows, shape.cols, place);
      QuantizeCall call;
      call.x = view_of(x.data(), shape.rows, shape.cols);
      call.spec = spec;
      call.place = place;
      comparison.quantize(call, words + " on " + kind.name + " input");
    }
  }
}

// Tensor factors beside 2^-128, whose reciprocals are no numbers: what is a guess of payloads elsewhere is none.
void compare_small_factors(gpu::Device& device) {
  Comparison comparison(device);
  for (const auto& order : arithmetic_table) {
    QuantSpec spec = quant_spec_from_words("nvfp4,tensor_scale=hold,block=8");
    spec.arithmetic = order.id;
    if (!invalid_reason(spec).empty()) continue;
    for (int power = -122; power <= -112; ++power) {
      std::vector<float> x = make_input(InputKind::gaussian, spec, 19, 64, place);
      for (float& v : x) v = std::ldexp(v, power);
      QuantizeCall call = {.x = view_of(x.data(), 19, 64), .spec = spec, .place = place};
      call.held_amax = std::ldexp(1.0f, power);
      comparison.quantize(call, std::string(order.name) + " of 2^" + std::to_string(power));
    }
  }
}

std::string with(const std::string& preset, const char* axis, const char* name) {
  return preset + "," + axis + "=" + name;
}

}  // namespace

void compare_roundings(gpu::Device& device) {
  for (const RoundingInfo& row : rounding_table) {
    for (const char* preset : {"mxfp4", "nvfp4", "mxfp6_e2m3"}) {
      compare_quantisers(device, with(preset, "rounding", row.name), false);
      if (!row.is_stochastic) continue;
      for (const char* bits : {"4", "16", "32"}) {
        compare_quantisers(device, with(with(preset, "rounding", row.name), "random_bits", bits), false);
      }
    }
  }
}

void compare_scale_rules(gpu::Device& device) {
  for (const ScaleRuleInfo& row : scale_rule_table) {
    if (row.id == ScaleRule::ms_eden) continue;  // draws for scales: the core quantises it alone
    for (const char* preset : {"mxfp4", "nvfp4", "ue5m3fp4,prescale=0.75"}) {
      for (const auto& order : arithmetic_table) {
        const std::string words = std::string(preset) + ",scale_rule=" + row.name + ",arithmetic=" + order.name;
        QuantSpec spec;
        try {
          spec = quant_spec_from_words(words);
        } catch (const std::exception&) {
          continue;  // an impossible combination
        }
        if (invalid_reason(spec).empty()) compare_quantisers(device, words, false);
      }
    }
  }
}

void compare_formats(gpu::Device& device) {
  for (const Preset& preset : preset_table) compare_quantisers(device, preset.name, true);
  for (const char* words : {"nvfp4,scale=bf16",
                            "nvfp4,scale=fp32,rounding=stochastic",
                            "nvfp4,scale=ue5m3_122880",
                            "nvfp4,scale=ue1m6",
                            "nvfp4,scale_rounding=stochastic",
                            "nvfp4,scale_rounding=toward_positive",
                            "mxfp4,block=8",
                            "mxfp4,block=64",
                            "mxfp4,block=128",
                            "mxfp4,block=16x16",
                            "nvfp4,block=32x32,rounding=stochastic,scale_rounding=stochastic",
                            "nvfp4,block=16x16,scale_rule=four_over_six",
                            "mxfp4,block=8x8,scale_rule=quest_nearest",
                            "nvfp4,tensor_scale=outer128",
                            "nvfp4,tensor_scale=outer128,arithmetic=te",
                            "mxfp4,block=row",
                            "mxfp4,block=row,scale_rule=quest_nearest,rounding=stochastic",
                            "nvfp4,scale=fp32,block=row,tensor_scale=none,scale_rounding=stochastic",
                            "mxfp4,block=tensor",
                            "nvfp4,scale=fp32,block=tensor,tensor_scale=none,element=e1m2",
                            "nvfp4,block=tensor,scale_rule=four_over_six",
                            "mxfp4,nonfinite=saturate",
                            "mxfp4,negative_zero=drop",
                            "nvfp4,zero_scale=keep",
                            "mxfp4,scale_floor=1",
                            "mxfp4,element=e4m3",
                            "mxfp4,element=e1m2,rounding=stochastic",
                            "mxfp4,element=e3m0",
                            "nvfp4,element=e5m2"}) {
    compare_quantisers(device, words, true);
  }
  compare_small_factors(device);
}

void compare_hadamards(gpu::Device& device) {
  Comparison comparison(device);
  for (const char* words :
       {"mxfp4,rounding=stochastic", "nvfp4", "mxfp4,block=16x16", "mxfp4,block=128", "nvfp4,tensor_scale=outer128",
        "nvfp4,tensor_scale=hold", "mxfp4,block=row", "mxfp4,block=tensor", "ue5m3fp4,scale_rounding=stochastic"}) {
    const QuantSpec spec = quant_spec_from_words(words);
    for (const int size : {0, 16, 64, 256}) {
      for (const InputKind kind : {InputKind::gaussian, InputKind::special, InputKind::subnormal}) {
        const std::vector<float> x = make_input(kind, spec, 70, 100, place);
        for (int variant = 0; variant < 4; ++variant) {
          QuantizeCall call;
          call.x = view_of(x.data(), 70, 100);
          if (variant == 1) call.x = view_of(x.data(), 100, 70).transposed();
          if (variant == 2) call.x = {x.data() + 1, 33, 49, 100, 2};  // neither contiguous nor a transpose
          call.spec = spec;
          call.place = place;
          call.hadamard = {size, HadamardSigns::per_step,
                           size == 64 ? HadamardNormalise::fold : HadamardNormalise::sqrt};
          if (variant == 3) {
            call.held_amax = 3.5f;
            call.soft_alpha = spec.block.kind == BlockKind::vector ? 1.0f : 0.0f;
            const bool may_be_band = spec.tensor_scale == TensorScale::none || spec.tensor_scale == TensorScale::hold;
            if (may_be_band && spec.block.kind != BlockKind::tensor) call.row_offset = 128;
          }
          comparison.quantize(
              call, std::string(words) + " hadamard " + std::to_string(size) + " variant " + std::to_string(variant));
        }
      }
    }
  }
  const std::vector<float> x = make_input(InputKind::special, mxfp4_spec, 20, 300, place);
  for (const int size : hadamard_sizes) {
    for (const bool inverse : {false, true}) {
      for (const HadamardNormaliseInfo& normalise : hadamard_normalise_table) {
        const HadamardSpec h = {size, HadamardSigns::per_step, normalise.id};
        std::vector<float> got(static_cast<size_t>(20 * hadamard_padded(h, 300)), -7.0f);
        std::vector<float> expected = got;
        comparison.backend().hadamard(view_of(x.data(), 20, 300), h, place, inverse, got.data(), 1);
        reference_backend().hadamard(view_of(x.data(), 20, 300), h, place, inverse, expected.data(), 1);
        CHECK(same_floats(got, expected));
      }
    }
  }
}

// What quick_run.h takes: rows without gaps, transposes and both copies at once, ragged at the end of a group and of a
// tile; every kind of input, so that ties, zeros, infinities and subnormal scales are among them.
void compare_runs(gpu::Device& device) {
  Comparison comparison(device);
  gpu::Pool pool(device);
  const RandomPlace other = {5, 19, 2};
  for (const std::string scales :
       {"mxfp4", "mxfp4,scale_rule=ceil,arithmetic=te", "mxfp4,scale_rule=rceil,zero_block=limit",
        "mxfp4,scale_rule=even", "mxfp4,scale_rule=uos", "mxfp4,scale_rule=even_above", "nvfp4", "te_nvfp4",
        "vllm_nvfp4", "ue5m3fp4", "nvfp4,tensor_scale=none", "nvfp4,arithmetic=reciprocal"}) {
    for (const char* rounding : {"nearest_even", "stochastic", "stochastic_midpoint", "nearest_away"}) {
      const std::string words = scales + ",rounding=" + rounding;
      const QuantSpec spec = quant_spec_from_words(words);
      for (const auto& kind : golden::input_kind_table) {
        const std::string what = words + " on " + kind.name + " input";
        const std::vector<float> x = make_input(kind.id, spec, 160, 96, place);
        QuantizeCall call = {.x = view_of(x.data(), 160, 96), .spec = spec, .place = place};
        if (spec.tensor_scale == TensorScale::none) call.row_offset = 64;
        comparison.quantize(call, what);
        call.x = call.x.transposed();
        comparison.quantize(call, what + ", transposed");
        if (!gpu::can_quantize_both_ways(spec, spec)) continue;
        gpu::Buffer<float> data(pool, 160 * 96);
        data.upload(x.data());
        gpu::Resident along = make_resident(pool, spec, 160, 96);
        gpu::Resident across = make_resident(pool, spec, 96, 160);
        quantize_both_ways(pool, {data.data(), 160, 96, 96, 1}, place, other, along, across);
        Quantized got[2];
        download(along, got[0]);
        download(across, got[1]);
        Quantized expected[2];
        const MatrixView view = view_of(x.data(), 160, 96);
        reference_backend().quantize({.x = view, .spec = spec, .place = place}, expected[0]);
        reference_backend().quantize({.x = view.transposed(), .spec = spec, .place = other}, expected[1]);
        for (int way = 0; way < 2; ++way) {
          const std::string where = difference(got[way], expected[way]);
          if (!where.empty()) FAIL_CHECK(what << ", way " << way << ": " << where);
        }
      }
    }
  }
}

void compare_both_ways(gpu::Device& device) {
  gpu::Pool pool(device);
  const RandomPlace other = {5, 19, 2};
  for (const char* words :
       {"mxfp4", "mxfp4,block=16,rounding=stochastic", "ue5m3fp4", "nvfp4,tensor_scale=none,block=64"}) {
    const QuantSpec along_spec = quant_spec_from_words(words);
    const QuantSpec across_spec = quant_spec_from_words("mxfp4,rounding=stochastic,block=64");
    REQUIRE(gpu::can_quantize_both_ways(along_spec, across_spec));
    for (const Shape& shape : shapes) {
      const std::vector<float> x = make_input(InputKind::boundary, along_spec, shape.rows, shape.cols, place);
      const MatrixView view = view_of(x.data(), shape.rows, shape.cols);
      gpu::Buffer<float> data(pool, shape.rows * shape.cols);
      data.upload(x.data());
      gpu::Resident along = make_resident(pool, along_spec, shape.rows, shape.cols);
      gpu::Resident across = make_resident(pool, across_spec, shape.cols, shape.rows);
      quantize_both_ways(pool, {data.data(), shape.rows, shape.cols, shape.cols, 1}, place, other, along, across);
      Quantized got[2];
      download(along, got[0]);
      download(across, got[1]);
      Quantized expected[2];
      reference_backend().quantize({.x = view, .spec = along_spec, .place = place}, expected[0]);
      reference_backend().quantize({.x = view.transposed(), .spec = across_spec, .place = other}, expected[1]);
      CHECK(difference(got[0], expected[0]) == "");
      CHECK(difference(got[1], expected[1]) == "");
    }
  }
  CHECK_FALSE(gpu::can_quantize_both_ways(nvfp4_spec, mxfp4_spec));
}

}  // namespace fp4::test
