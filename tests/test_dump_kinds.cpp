// What kernels dump besides plain arrays: tiles whose padding was never written, decoded values in bf16 and fp16,
// blocks of another shape, rotations that went wrong, activations; and bundles that hold hashes in place of answers.
#include <catch2/catch.hpp>
#include <cmath>

#include "src/golden/variants.h"
#include "src/layout/digit_layout.h"
#include "tests/support/golden_bench.h"

using namespace fp4;
using namespace fp4::golden;
using test::all_stages, test::Bench, test::expect, test::find, test::quantize_case;

namespace {

Case rotated_case(const char* words, HadamardSigns signs) {
  Case c = quantize_case(words, InputKind::gaussian, 16, 128);
  c.hadamard = {32, signs, HadamardNormalise::sqrt};
  return c;
}

// The case's input through a rotation written out here, then quantised without one.
std::vector<Array> dump_of_rotation(Bench& bench, const std::function<void(float*, const HadamardSpec&)>& rotate) {
  Case other = bench.bundle.cases[0];
  const HadamardSpec h = other.hadamard;
  other.given_a = Bench::floats(find(bench.arrays, "input"));
  for (size_t i = 0; i < other.given_a.size(); i += static_cast<size_t>(h.size)) rotate(&other.given_a[i], h);
  other.hadamard = {};
  return Bench::pick(make_arrays(other, "reference", 1), {"scales", "codes"});
}

}  // namespace

TEST_CASE("padding of tiles is judged apart, and a real scale among it is found", "[quick]") {
  Bench bench(quantize_case("vllm_nvfp4", InputKind::gaussian, 40, 80));
  const Case& c = bench.bundle.cases[0];
  Array scales = load_array(bench.bundle, c, "scales_128x4");
  const Placement at(row_of(scale_layout_table, ScaleLayout::tile_128x4).placing, 40, 5);
  std::vector<bool> is_real(scales.bytes.size(), false);
  for (int64_t r = 0; r < 40; ++r)
    for (int64_t k = 0; k < 5; ++k) is_real[static_cast<size_t>(at.at(r, k))] = true;
  uint64_t padding = 0, nans = 0;
  for (size_t i = 0; i < is_real.size(); ++i) {
    if (is_real[i]) continue;
    scales.bytes[i] = static_cast<unsigned char>(i % 128);
    padding += i % 128 != 0 ? 1 : 0;
    nans += i % 128 == 127 ? 1 : 0;
  }
  const CandidateArray candidate = {0, "scales", "scales_128x4", "", scales};
  const Comparison same = compare(c, candidate, load_array(bench.bundle, c, "scales_128x4"));
  CHECK(same.mismatches == 0);
  CHECK(same.compared == 200);
  CHECK(same.padding == padding);
  CHECK(same.padding_nan == nans);
  CandidateArray wrong = candidate;
  wrong.array.bytes[static_cast<size_t>(at.at(3, 2))] ^= 1;
  const Comparison one = compare(c, wrong, load_array(bench.bundle, c, "scales_128x4"));
  REQUIRE(one.mismatches == 1);
  CHECK(one.first[0].index == std::vector<uint64_t>{3, 2});
  // Under the plain name the order is found whatever the padding holds, and beside another cause.
  auto plain = scales;
  plain.name = "scales";
  const Diagnosis order = bench.diagnose_dump({plain});
  expect(order, "scale_layout=128x4");
  CHECK(order.is_order);
  Array other = bench.dump_of("vllm_nvfp4,scale_rounding=toward_positive", {"scales_128x4"})[0];
  for (size_t i = 0; i < is_real.size(); ++i)
    if (!is_real[i]) other.bytes[i] = 0xA5;
  expect(bench.diagnose_dump({other}), "scale_rounding=toward_positive");
}

TEST_CASE("decoded values in bf16 and fp16 are judged in their type", "[quick]") {
  Bench bench(quantize_case("nvfp4", InputKind::gaussian, 16, 64));
  const Case& c = bench.bundle.cases[0];
  const auto y = Bench::floats(find(bench.arrays, "dequantized"));
  for (const RealType type : {RealType::bf16, RealType::fp16}) {
    std::vector<float> rounded;
    for (const float v : y) rounded.push_back(rounded_to(type, v));
    REQUIRE(rounded != y);
    Array array = find(bench.arrays, "dequantized");
    array.bytes = bytes_of(rounded);
    CandidateArray candidate = {0, "dequantized", "dequantized", "", array, type};
    CHECK(compare(c, candidate, find(bench.arrays, "dequantized")).mismatches == 0);
    // One step of the type is a distance of one.
    candidate.array.bytes = bytes_of({[&] {
      auto moved = rounded;
      const uint32_t step = type == RealType::bf16 ? 1u << 16 : 1u << 13;
      const size_t i = static_cast<size_t>(std::max_element(moved.begin(), moved.end()) - moved.begin());
      moved[i] = float_of(bits_of(moved[i]) + step);
      return moved;
    }()});
    const Comparison off = compare(c, candidate, find(bench.arrays, "dequantized"));
    CHECK(off.distance == std::map<int64_t, uint64_t>{{1, 1}});
    // As float32 they are a cause, alone and beside another.
    const std::string cause = std::string("dequantized=") + row_of(real_type_table, type).name;
    expect(bench.diagnose_dump({array}), cause);
    Array both = bench.dump_of("nvfp4,rounding=toward_zero", {"dequantized"})[0];
    auto values = Bench::floats(both);
    for (float& v : values) v = rounded_to(type, v);
    both.bytes = bytes_of(values);
    expect(bench.diagnose_dump({both}), cause + " and rounding=toward_zero");
  }
}

TEST_CASE("blocks of another shape are a cause, stored once or for each row", "[quick]") {
  Bench bench(quantize_case("nvfp4", InputKind::gaussian, 32, 64));
  const auto square = bench.dump_of("nvfp4,block=16x16", {"scales", "codes"});
  REQUIRE(find(bench.arrays, "scales").bytes.size() == 128);
  REQUIRE(square[0].bytes.size() == 8);
  expect(bench.diagnose_dump(square), "block=16x16");
  auto repeated = square;
  repeated[0].bytes.clear();
  for (size_t r = 0; r < 32; ++r)
    for (size_t k = 0; k < 4; ++k) repeated[0].bytes.push_back(square[0].bytes[r / 16 * 4 + k]);
  repeated[0].shape = {32, 4};
  const Diagnosis d = bench.diagnose_dump(repeated);
  expect(d, "block=16x16 and scale_storage=repeated");
  expect(bench.diagnose_dump(bench.dump_of("nvfp4,block=32", {"scales", "codes"})), "block=32");
  expect(bench.diagnose_dump(bench.dump_of("nvfp4,block=16x16", {"codes"})), "block=16x16");
}

TEST_CASE("rotations that went wrong are named", "[quick]") {
  Bench bench(rotated_case("mxfp4", HadamardSigns::per_layer));
  const RandomPlace place = bench.bundle.cases[0].place.hadamard_signs();
  const auto mask = hadamard_signs(bench.bundle.cases[0].hadamard, place);
  const auto named = [&](const std::string& cause, const std::function<void(float*, const HadamardSpec&)>& rotate) {
    INFO(cause);
    expect(bench.diagnose_dump(dump_of_rotation(bench, rotate)), cause);
  };
  named("hadamard=none", [](float*, const HadamardSpec&) {});
  named("hadamard.signs=none", [](float* x, const HadamardSpec& h) { hadamard_tile(x, h, {}); });
  named("hadamard=signs_after", [&](float* x, const HadamardSpec& h) {
    hadamard_tile(x, h, {});
    for (int j = 0; j < h.size; ++j)
      if (mask.is_minus(j)) x[j] = -x[j];
  });
  named("hadamard=signs_reversed", [&](float* x, const HadamardSpec& h) {
    for (int j = 0; j < h.size; ++j)
      if (mask.is_minus(h.size - 1 - j)) x[j] = -x[j];
    hadamard_tile(x, h, {});
  });
  named("hadamard=negated", [&](float* x, const HadamardSpec& h) {
    hadamard_tile(x, h, mask);
    for (int j = 0; j < h.size; ++j) x[j] = -x[j];
  });
  named("hadamard.size=16", [&](float* x, const HadamardSpec&) {
    const HadamardSpec small = {16, HadamardSigns::per_layer, HadamardNormalise::sqrt};
    for (int tile = 0; tile < 32; tile += 16) hadamard_tile(x + tile, small, hadamard_signs(small, place));
  });
  named("hadamard.normalise=fold", [&](float* x, const HadamardSpec& h) {
    HadamardSpec fold = h;
    fold.normalise = HadamardNormalise::fold;
    hadamard_tile(x, fold, mask);
  });
}

TEST_CASE("activations are named with their numbers, and said ones are judged", "[quick]") {
  Case c = quantize_case("nvfp4", InputKind::gaussian, 12, 320);
  c.is_gemm = true;
  c.rows_b = 11;
  c.words_b = "nvfp4";
  c.accumulators = {"fp32_block"};
  Bench bench(c);
  const auto products = Bench::floats(find(bench.arrays, "output_fp32_block"));
  const auto dump = [&](RealType type, const std::function<double(double)>& change) {
    Array a = find(bench.arrays, "output_fp32_block");
    std::vector<float> v;
    for (const float p : products) v.push_back(rounded_to(type, static_cast<float>(change(static_cast<double>(p)))));
    a.bytes = bytes_of(v);
    return a;
  };
  const auto gelu = [](double v) { return 0.5 * v * std::erfc(-v / std::sqrt(2.0)); };
  const auto by_tanh = [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
  };
  expect(bench.diagnose_dump({dump(RealType::fp32, [](double v) { return v > 0 ? v : 0; })}), "epilogue=relu");
  expect(bench.diagnose_dump({dump(RealType::bf16, [](double v) { return v > 0 ? v : 0; })}),
         "epilogue=relu and output=bf16");
  expect(bench.diagnose_dump({dump(RealType::bf16, [](double v) { return v > 0 ? 0.25 * v : 0; })}),
         "epilogue=alpha and epilogue=relu and output=bf16");
  expect(bench.diagnose_dump({dump(RealType::bf16, [&](double v) { return gelu(0.125 * v); })}),
         "epilogue=alpha and epilogue=gelu and output=bf16");
  expect(bench.diagnose_dump({dump(RealType::fp16, by_tanh)}), "epilogue=gelu_tanh and output=fp16");
  expect(bench.diagnose_dump({dump(RealType::bf16, [](double v) { return v / (1 + std::exp(-v)); })}),
         "epilogue=silu and output=bf16");
  CaseEpilogue& said = bench.bundle.cases[0].epilogue;
  said.activation = Activation::gelu_tanh;
  said.output = RealType::fp16;
  CHECK(bench.diagnose_dump({dump(RealType::fp16, by_tanh)}).first_diverging.empty());
}

// A truncated scale was once called stochastic, because the search drew 0 for it.
TEST_CASE("whatever equals survives a replay from its words with the case's seed", "[quick]") {
  Bench bench(quantize_case("nvfp4", InputKind::boundary, 48, 256));
  const auto scales = bench.dump_of("nvfp4,scale_rounding=stochastic", {"scales", "codes"});
  const Diagnosis drawn = bench.diagnose_dump(scales);
  expect(drawn, "scale_rounding=stochastic");
  CHECK(drawn.causes[0].words == "nvfp4,scale_rounding=stochastic");
  for (const Cause& cause : drawn.causes) {
    INFO(cause.text());
    REQUIRE_FALSE(cause.words.empty());
    const auto again = bench.dump_of(cause.words, {"scales", "codes"});
    for (size_t i = 0; i < again.size(); ++i) CHECK(again[i].bytes == scales[i].bytes);
  }
  // Scales cut toward zero by hand.
  const auto x = Bench::floats(find(bench.arrays, "input"));
  const double g = static_cast<double>(Bench::floats(find(bench.arrays, "tensor_scale"))[0]);
  Array cut = find(bench.arrays, "scales");
  int changed = 0;
  for (size_t block = 0; block < cut.bytes.size(); ++block) {
    double amax = 0;
    for (size_t i = 0; i < 16; ++i) amax = std::max(amax, std::abs(static_cast<double>(x[16 * block + i])));
    uint32_t code = 1;
    while (code < 126 && static_cast<double>(decode(format_of(Scale::ue4m3), code + 1)) * 6 * g <= amax) ++code;
    changed += cut.bytes[block] != code ? 1 : 0;
    cut.bytes[block] = static_cast<unsigned char>(code);
  }
  REQUIRE(changed > 20);
  for (const Cause& cause : bench.diagnose_dump({cut}).causes) {
    INFO(cause.text());
    CHECK((cause.after > 0 || cause.text().find("stochastic") == std::string::npos));
  }
}

TEST_CASE("a case beyond 2^20 elements is hashes, judged and checked like any other", "[quick]") {
  Case c = quantize_case("mxfp4", InputKind::gaussian, 1032, 1024);
  c.given_a.resize(1032 * 1024);
  for (size_t i = 0; i < c.given_a.size(); ++i)
    c.given_a[i] =
        std::ldexp(static_cast<float>(static_cast<int>(i * 2654435761u % 2001u) - 1000), static_cast<int>(i % 7) - 8);
  REQUIRE(is_large(c));
  const test::TemporaryFolder folder;
  write_bundle("test", {c}, folder / "bundle", false, "auto", 1);
  CHECK(std::filesystem::exists(folder / "bundle/case/input.npy"));
  CHECK_FALSE(std::filesystem::exists(folder / "bundle/case/codes.npy"));
  const Bundle bundle = open_bundle(folder / "bundle");
  const Case& stored = bundle.cases[0];
  CHECK(stored.stored.at("codes").block_sha256.size() == 1);
  CHECK(stored.stored.at("dequantized").block_sha256.size() == 5);
  CHECK(check_bundle(bundle, "auto", 1).empty());
  Array codes;
  for (Array& a : make_arrays(c, "auto", 1))
    if (a.name == "codes") codes = a;
  CHECK(is_hash_of(stored, codes));
  codes.bytes[12345] ^= 1;
  CHECK_FALSE(is_hash_of(stored, codes));
  const Comparison one = compare(stored, {0, "codes", "codes", "", codes}, load_array(bundle, stored, "codes"));
  REQUIRE(one.mismatches == 1);
  CHECK(one.first[0].index == std::vector<uint64_t>{12345 / 512, 12345 % 512 * 2});
}

TEST_CASE("a bundle in memory has the arrays of one on disk", "[quick]") {
  Bench bench(quantize_case("nvfp4", InputKind::boundary, 8, 64));
  const Bundle made = made_bundle(quantize_case("nvfp4", InputKind::boundary, 8, 64), "auto", 1);
  for (const auto& [name, record] : bench.bundle.cases[0].stored) {
    INFO(name);
    CHECK(load_array(made, made.cases[0], name).bytes == load_array(bench.bundle, bench.bundle.cases[0], name).bytes);
  }
  CHECK(load_array(made, made.cases[0], "scales_8x4").bytes ==
        load_array(bench.bundle, bench.bundle.cases[0], "scales_8x4").bytes);
}
