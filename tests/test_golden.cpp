// Are bundles reproducible, are layouts those of their documents, and does the diagnosis name what a wrong kernel does?
// Each mutant corrupts a correct dump in one way; verify must name that way, and nothing for a random corruption.
#include <catch2/catch.hpp>
#include <set>

#include "src/backends/backends.h"
#include "src/files/dtype.h"
#include "src/files/manifest.h"
#include "src/golden/diagnose.h"
#include "src/golden/variants.h"
#include "src/golden/witness.h"
#include "src/layout/digit_layout.h"
#include "tests/support/cuda_types.h"
#include "tests/support/golden_bench.h"
#include "tests/support/share.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::golden;

using test::all_stages, test::Bench, test::expect, test::find, test::quantize_case;

TEST_CASE("wrong policies are named", "[quick]") {
  struct Mutant {
    const char* words;
    const char* mutated;
    const char* cause;
  };
  const Mutant mutants[] = {
      {"mxfp4", "mxfp4,scale_rule=rceil", "scale_rule=rceil"},
      {"mxfp4", "mxfp4,scale_rule=even", "scale_rule=even"},
      {"mxfp4", "mxfp4,scale_rule=ceil", "scale_rule=ceil"},
      {"mxfp4", "mxfp4,rounding=nearest_away", "rounding=nearest_away"},
      {"mxfp4", "mxfp4,rounding=nearest_toward_zero", "rounding=nearest_toward_zero"},
      {"mxfp4", "mxfp4,rounding=toward_zero", "rounding=toward_zero"},
      {"mxfp4", "mxfp4,negative_zero=drop", "negative_zero=drop"},
      {"mxfp4", "mxfp4,prescale=0.75", "prescale=0.75"},
      {"nvfp4", "nvfp4,arithmetic=divide", "arithmetic=divide"},
      {"nvfp4", "nvfp4,arithmetic=reciprocal", "arithmetic=reciprocal"},
      {"nvfp4", "nvfp4,arithmetic=te", "arithmetic=te"},
      {"nvfp4", "nvfp4,tensor_scale=none", "tensor_scale=none"},
      {"nvfp4", "nvfp4,scale_rule=four_over_six,target=448", "scale_rule=four_over_six"},
      {"nvfp4", "nvfp4,target=256", "target=256"},
      {"nvfp4", "nvfp4,scale_rounding=toward_positive", "scale_rounding=toward_positive"},
      {"mxfp4,rounding=stochastic", "mxfp4,rounding=stochastic_truncated", "rounding=stochastic_truncated"},
      {"mxfp4,rounding=stochastic", "mxfp4,rounding=stochastic_midpoint", "rounding=stochastic_midpoint"},
      {"mxfp4,rounding=stochastic", "mxfp4,rounding=stochastic,random_bits=16", "random_bits=16"},
      {"mxfp4,rounding=stochastic", "mxfp4", "rounding=nearest_even"},
      {"mxfp4,rounding=stochastic,random_bits=4", "mxfp4,rounding=stochastic_truncated,random_bits=4",
       "rounding=stochastic_truncated"},
  };
  for (const Mutant& m : mutants) {
    if (!test::next_case_runs()) continue;
    INFO(m.words << " -> " << m.mutated);
    Bench bench(quantize_case(m.words, InputKind::boundary, 48, 128));
    std::string cause = m.cause;
    if (std::string(m.mutated).find("four_over_six") != std::string::npos) {
      // the default target of four_over_six is 256; an explicit 448 is the word's change alone only with nvfp4's target
      Bench other(quantize_case("nvfp4,target=448", InputKind::boundary, 48, 128));
      expect(other.diagnose_dump(other.dump_of("nvfp4,target=448,scale_rule=four_over_six", all_stages)), cause);
      continue;
    }
    expect(bench.diagnose_dump(bench.dump_of(m.mutated, all_stages)), cause);
  }
}

TEST_CASE("edge policies are named on special inputs", "[quick]") {
  for (const auto& [words, mutated, cause] : {std::tuple{"mxfp4", "mxfp4,nonfinite=saturate", "nonfinite=saturate"},
                                              std::tuple{"mxfp4", "mxfp4,zero_block=limit", "zero_block=limit"}}) {
    Bench bench(quantize_case(words, InputKind::special, 24, 128));
    expect(bench.diagnose_dump(bench.dump_of(mutated, all_stages)), cause);
  }
  Bench tiny(quantize_case("ue5m3fp4", InputKind::subnormal, 24, 128));
  expect(tiny.diagnose_dump(tiny.dump_of("ue5m3fp4,zero_scale=one", all_stages)), "zero_scale=one");
}

TEST_CASE("layouts, nibbles and transposes are named", "[quick]") {
  Case c = quantize_case("mxfp4", InputKind::boundary, 64, 128);
  c.with_transpose = true;
  Bench bench(c);
  auto swapped = bench.correct(all_stages);
  for (unsigned char& b : find(swapped, "codes").bytes) b = static_cast<unsigned char>(b << 4 | b >> 4);
  expect(bench.diagnose_dump(swapped), "nibble_order=high_first");
  // Under the plain name the layout is what is wrong; under its own name nothing is.
  const auto check = [&](const std::string& part, const std::string& layout, const std::string& cause,
                         const std::vector<uint8_t>& bytes) {
    INFO(part << " " << layout);
    auto relaid = bench.correct(all_stages);
    Array& moved = find(relaid, part);
    moved.bytes.assign(bytes.begin(), bytes.end());
    const bool is_plain = moved.bytes == find(bench.arrays, part).bytes;
    if (!is_plain) expect(bench.diagnose_dump(relaid), cause + layout);
    moved.name = part + "_" + layout;
    const Case& judged = bench.bundle.cases[0];
    const auto mismatches = [&] {
      return compare(judged, {0, part, moved.name, "", moved}, load_array(bench.bundle, judged, moved.name)).mismatches;
    };
    CHECK(mismatches() == 0);
    const std::vector<int64_t> home = homes_of(judged, moved.name).at;
    size_t flipped = moved.bytes.size() / 2;
    if (home.size() == moved.bytes.size())
      while (home[flipped] < 0) --flipped;  // padding is judged apart
    moved.bytes[flipped] ^= 1;
    CHECK(mismatches() == 1);
  };
  const Array& scales = find(bench.arrays, "scales");
  for (const ScaleLayoutInfo& layout : scale_layout_table)
    if (layout.id != ScaleLayout::linear)
      check("scales", layout.name,
            "scale_layout=", to_layout(layout.id, {scales.bytes.begin(), scales.bytes.end()}, 64, 4));
  const Array& packed = find(bench.arrays, "codes");
  const auto codes = from_layout(CodeLayout::low_first, {packed.bytes.begin(), packed.bytes.end()}, 64, 128, "test");
  for (const CodeLayoutInfo& layout : code_layout_table)
    if (layout.bits == 4) check("codes", layout.name, "nibble_order=", to_layout(layout.id, codes, 64, 128));
  auto transposed = bench.correct(all_stages);
  for (Array& a : transposed) a.bytes = find(bench.arrays, a.name + "_transposed").bytes;
  const Diagnosis d = bench.diagnose_dump(transposed);
  expect(d, "operand=transposed");
}

TEST_CASE("deeds that no policy word says are named", "[quick]") {
  SECTION("a float log2 at maxima just below powers of two") {
    Bench bench(quantize_case("mxfp4", InputKind::boundary, 96, 128));
    auto dump = bench.correct({"scales", "codes"});
    const auto x = Bench::floats(find(bench.arrays, "input"));
    Array& scales = find(dump, "scales");
    Array& codes = find(dump, "codes");
    int changed = 0;
    for (size_t block = 0; block < x.size() / 32; ++block) {
      float amax = 0;
      for (size_t i = 0; i < 32; ++i) amax = std::max(amax, std::abs(x[block * 32 + i]));
      const int e = static_cast<int>(std::floor(static_cast<float>(std::log2(static_cast<double>(amax)))));
      const auto code = static_cast<unsigned char>(127 + e - 2);
      if (code == scales.bytes[block]) continue;
      ++changed;
      scales.bytes[block] = code;
      const float s = std::ldexp(1.0f, e - 2);
      for (size_t i = 0; i < 32; i += 2) {
        const auto nibble = [&](float v) {
          return encode(format_of(Element::e2m1), exact_magnitude(v / s), v < 0, {}) | (std::signbit(v) ? 8u : 0u);
        };
        codes.bytes[(block * 32 + i) / 2] =
            static_cast<unsigned char>(nibble(x[block * 32 + i]) | nibble(x[block * 32 + i + 1]) << 4);
      }
    }
    REQUIRE(changed > 0);
    expect(bench.diagnose_dump(dump), "exponent=float_log2");
  }
  SECTION("no saturation") {
    Bench bench(quantize_case("mxfp4", InputKind::gaussian, 32, 128));
    auto dump = bench.correct({"codes"});
    const auto x = Bench::floats(find(bench.arrays, "input"));
    const auto& scales = find(bench.arrays, "scales").bytes;
    for (size_t i = 0; i < x.size(); ++i) {
      const float u = std::abs(std::ldexp(x[i], 127 - scales[i / 32]));
      if (u < 7) continue;  // [7, 8) rounds to the code after 6 and wraps to 0
      unsigned char& b = find(dump, "codes").bytes[i / 2];
      b = static_cast<unsigned char>(i % 2 == 0 ? (b & 0xF8) : (b & 0x8F));
    }
    expect(bench.diagnose_dump(dump), "saturation=wrap");
  }
  SECTION("scales one code low") {
    Bench bench(quantize_case("mxfp4", InputKind::boundary, 32, 128));
    auto dump = bench.correct({"scales"});
    for (unsigned char& s : find(dump, "scales").bytes) --s;
    expect(bench.diagnose_dump(dump), "scale_step=-1");
  }
  SECTION("tensor scale left out of the decode") {
    Bench bench(quantize_case("nvfp4", InputKind::gaussian, 32, 128));
    auto dump = bench.correct({"codes", "scales", "dequantized"});
    const float g = Bench::floats(find(bench.arrays, "tensor_scale"))[0];
    auto y = Bench::floats(find(dump, "dequantized"));
    auto& bytes = find(dump, "dequantized").bytes;
    for (size_t i = 0; i < y.size(); ++i) {
      const double s = decode(format_of(Scale::ue4m3), find(bench.arrays, "scales").bytes[i / 16]);
      const unsigned code = find(bench.arrays, "codes").bytes[i / 2] >> (4 * (i % 2)) & 15u;
      const float v = static_cast<float>(static_cast<double>(decode(format_of(Element::e2m1), code)) * s);
      std::memcpy(&bytes[4 * i], &v, 4);
    }
    REQUIRE(g != 1.0f);
    expect(bench.diagnose_dump(dump), "tensor_scale_decode=missing");
  }
  SECTION("other random words, drawn fairly") {
    Bench bench(quantize_case("mxfp4,rounding=stochastic", InputKind::gaussian, 64, 512));
    Case other = bench.bundle.cases[0];
    other.given_a = Bench::floats(find(bench.arrays, "input"));
    other.place = {987654321, 12345, 77};
    expect(bench.diagnose_dump(Bench::pick(make_arrays(other, "reference", 1), {"codes"})), "random_words=other");
  }
  SECTION("the case's own draws but for three codes") {
    Bench bench(quantize_case("mxfp4,rounding=stochastic", InputKind::gaussian, 64, 512));
    std::vector<Array> dump = Bench::pick(bench.arrays, {"codes"});
    const std::vector<Array> up = bench.dump_of("mxfp4,rounding=away_from_zero", {"codes"});
    int changed = 0;
    for (size_t i = 999; i < dump[0].bytes.size() && changed < 3; i += 1000) {
      changed += dump[0].bytes[i] != up[0].bytes[i];
      dump[0].bytes[i] = up[0].bytes[i];
    }
    REQUIRE(changed == 3);
    CHECK(bench.diagnose_dump(dump).causes.empty());
  }
  SECTION("one code in twenty goes up whatever its payload is, the others are drawn fairly") {
    Bench bench(quantize_case("mxfp4,rounding=stochastic", InputKind::gaussian, 64, 512));
    Case other = bench.bundle.cases[0];
    other.given_a = Bench::floats(find(bench.arrays, "input"));
    other.place = {987654321, 12345, 77};
    std::vector<Array> dump = Bench::pick(make_arrays(other, "reference", 1), {"codes"});
    const std::vector<Array> up = bench.dump_of("mxfp4,rounding=away_from_zero", {"codes"});
    for (size_t i = 0; i < dump[0].bytes.size(); i += 10)
      dump[0].bytes[i] = static_cast<unsigned char>((dump[0].bytes[i] & 0xF0) | (up[0].bytes[i] & 15));
    expect(bench.diagnose_dump(dump), "rounding=biased_stochastic");
  }
}

TEST_CASE("what kernels store instead is named", "[quick]") {
  const auto put = [](Array& a, const std::vector<float>& v) {
    a.dtype = "f32";
    a.bytes = bytes_of(v);
  };
  Bench nvfp4(quantize_case("nvfp4", InputKind::gaussian, 32, 128));
  const auto x = Bench::floats(find(nvfp4.arrays, "input"));
  const float g = Bench::floats(find(nvfp4.arrays, "tensor_scale"))[0];
  float amax = 0;
  for (const float v : x) amax = std::max(amax, std::abs(v));
  SECTION("a tensor scale that is another number") {
    const std::vector<std::string> arrays = {"tensor_scale", "scales", "codes", "dequantized"};
    for (const auto& [value, cause] :
         {std::pair{1.0f / g, "tensor_scale_stored=reciprocal"},
          std::pair{448.0f * 6.0f / amax, "tensor_scale_stored=encode"}, std::pair{amax, "tensor_scale_stored=amax"}}) {
      auto dump = nvfp4.correct(arrays);
      put(find(dump, "tensor_scale"), {value});
      expect(nvfp4.diagnose_dump(dump), cause);
    }
  }
  SECTION("a tensor scale of each row, and of an amax in bf16") {
    Array scales = {"scales", "u8", {32, 8}, {}}, codes = {"codes", "u8", {32, 64}, {}};
    for (int64_t r = 0; r < 32; ++r) {
      Case row = nvfp4.bundle.cases[0];
      row.rows = 1;
      row.given_a.assign(x.begin() + r * 128, x.begin() + (r + 1) * 128);
      auto made = make_arrays(row, "reference", 1);
      for (Array* all : {&scales, &codes}) {
        const auto& bytes = find(made, all->name).bytes;
        all->bytes.insert(all->bytes.end(), bytes.begin(), bytes.end());
      }
    }
    expect(nvfp4.diagnose_dump({scales, codes}), "tensor_scale=row");
    const float bf16 = float_of((bits_of(amax) + 0x7FFFu + (bits_of(amax) >> 16 & 1u)) & 0xFFFF0000u);
    REQUIRE(bf16 != amax);
    Array factor = find(nvfp4.arrays, "tensor_scale");
    put(factor, {bf16 / 2688.0f});
    expect(nvfp4.diagnose_dump({factor}), "tensor_scale_of=bf16");
  }
  SECTION("real numbers instead of codes") {
    const float values[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    Bench mxfp4(quantize_case("mxfp4", InputKind::gaussian, 32, 128));
    auto dump = mxfp4.correct({"scales", "codes"});
    std::vector<float> s, q;
    for (const unsigned char b : find(dump, "scales").bytes) s.push_back(std::ldexp(1.0f, b - 127));
    for (const unsigned char b : find(dump, "codes").bytes)
      for (const int code : {b & 15, b >> 4}) q.push_back(code < 8 ? values[code] : -values[code - 8]);
    put(find(dump, "scales"), s);
    expect(mxfp4.diagnose_dump(dump), "scale_storage=values");
    put(find(dump, "codes"), q);
    expect(mxfp4.diagnose_dump(dump), "code_storage=values and scale_storage=values");
  }
  SECTION("4 or 6 by the sum of absolute errors") {
    Bench bench(quantize_case("fouroversix", InputKind::gaussian, 32, 128));
    auto dump = bench.correct({"scales", "codes"});
    const auto y = Bench::floats(find(bench.arrays, "input"));
    const double factor = Bench::floats(find(bench.arrays, "tensor_scale"))[0];
    int changed = 0;
    for (size_t block = 0; block < y.size() / 16; ++block) {
      float top = 0;
      for (size_t i = 0; i < 16; ++i) top = std::max(top, std::abs(y[block * 16 + i]));
      double least = HUGE_VAL;
      for (const double m : {6.0, 4.0}) {
        const uint32_t code = encode(format_of(Scale::ue4m3), exact_magnitude(static_cast<float>(top / (m * factor))),
                                     false, {Rounding::nearest_even, 8, 0});
        const double s = static_cast<double>(decode(format_of(Scale::ue4m3), code)) * factor;
        double error = 0;
        unsigned char bytes[8] = {};
        for (size_t i = 0; i < 16; ++i) {
          const float v = y[block * 16 + i];
          const uint32_t q = encode(format_of(Element::e2m1), exact_magnitude(static_cast<float>(std::abs(v) / s)),
                                    v < 0, {Rounding::nearest_even, 8, 0});
          error +=
              std::abs(std::abs(static_cast<double>(v)) - static_cast<double>(decode(format_of(Element::e2m1), q)) * s);
          bytes[i / 2] = static_cast<unsigned char>(bytes[i / 2] | (q | (std::signbit(v) ? 8u : 0u)) << 4 * (i % 2));
        }
        if (error >= least) continue;
        least = error;
        changed += m == 4.0 && code != find(bench.arrays, "scales").bytes[block] ? 1 : 0;
        find(dump, "scales").bytes[block] = static_cast<unsigned char>(code);
        std::copy_n(bytes, 8, &find(dump, "codes").bytes[block * 8]);
      }
    }
    REQUIRE(changed > 0);
    expect(bench.diagnose_dump(dump), "error=mae");
  }
  SECTION("draws that are counted along columns, or from the top of a word") {
    Bench bench(quantize_case("mxfp4,rounding=stochastic", InputKind::gaussian, 32, 128));
    const auto y = Bench::floats(find(bench.arrays, "input"));
    for (const bool columns : {true, false}) {
      auto dump = bench.correct({"scales", "codes"});
      std::fill(find(dump, "codes").bytes.begin(), find(dump, "codes").bytes.end(), uint8_t{0});
      for (size_t i = 0; i < y.size(); ++i) {
        const float u = std::ldexp(y[i], 127 - find(dump, "scales").bytes[i / 32]);
        const uint64_t taken = columns ? i % 128 * 32 + i / 128 : i ^ 3u;  // four draws of 8 bits in a word
        const uint32_t draw = random_draw(bench.bundle.cases[0].place, taken, 8);
        const uint32_t q =
            encode(format_of(Element::e2m1), exact_magnitude(std::abs(u)), u < 0, {Rounding::stochastic, 8, draw});
        auto& b = find(dump, "codes").bytes[i / 2];
        b = static_cast<unsigned char>(b | (q | (std::signbit(u) ? 8u : 0u)) << 4 * (i % 2));
      }
      expect(bench.diagnose_dump(dump), columns ? "draw_order=column_major" : "draw_order=high_first");
    }
  }
}

TEST_CASE("accumulators are named", "[quick]") {
  Case c = quantize_case("nvfp4", InputKind::heavy_tailed, 12, 320);
  c.is_gemm = true;
  c.rows_b = 11;
  c.words_b = "nvfp4";
  for (const AccumulatorInfo& row : accumulator_table)
    if (row.row.kind != AccumulatorKind::integer) c.accumulators.emplace_back(row.name);
  Bench bench(c);
  for (const char* name : {"exact", "fp32_sequential", "k64_rz", "k64_rz_snap", "fused35_rz", "fused25_rz", "double",
                           "fma_sequential", "hopper_fp8", "cdna3_16bit", "cdna3_fp8"}) {
    INFO(name);
    Array a = find(bench.arrays, std::string("output_") + name);
    if (a.bytes == find(bench.arrays, "output_fp32_block").bytes) continue;
    a.name = "output_fp32_block";
    expect(bench.diagnose_dump({a}), std::string("accumulator=") + name);
  }
  // TransformerEngine's factor of a product, from the amaxes: an ulp here and there
  for (const auto& row : product_factor_table) {
    if (row.id == ProductFactor::tensor_scales) continue;
    const CaseInputs inputs = load_inputs(bench.bundle, bench.bundle.cases[0]);
    const Simulator simulator(bench.bundle.cases[0], inputs, "reference", 1);
    Kernel kernel = simulator.base();
    kernel.factor = row.id;
    Array dump = find(bench.arrays, "output_fp32_block");
    std::vector<float> values;
    for (const uint32_t bits : simulator.elements(kernel, "output_fp32_block")) values.push_back(float_of(bits));
    dump.bytes = bytes_of(values);
    expect(bench.diagnose_dump({dump}), std::string("product_factor=") + row.name);
  }
  Array t = find(bench.arrays, "output_fp32_block");
  std::vector<unsigned char> moved(t.bytes.size());
  for (size_t i = 0; i < 12; ++i) {
    for (size_t j = 0; j < 11; ++j) std::copy_n(&t.bytes[4 * (i * 11 + j)], 4, &moved[4 * (j * 12 + i)]);
  }
  t.bytes = moved;
  expect(bench.diagnose_dump({t}), "output=transposed");
  // What epilogues do to a product.
  const Array& right = find(bench.arrays, "output_fp32_block");
  const auto changed = [&](auto&& change) {
    auto v = Bench::floats(right);
    for (size_t i = 0; i < v.size(); ++i) v[i] = change(v[i], i);
    Array a = right;
    a.bytes = bytes_of(v);
    return bench.diagnose_dump({a});
  };
  const auto bf16 = [](float v, size_t) {
    return float_of((bits_of(v) + 0x7FFFu + (bits_of(v) >> 16 & 1u)) & 0xFFFF0000u);
  };
  expect(changed(bf16), "output=bf16");
  expect(changed([](float v, size_t) { return v * 0.37f; }), "epilogue=alpha");
  expect(changed([](float v, size_t i) { return v + 0.1f * static_cast<float>(i % 11 + 1); }), "epilogue=bias");
  CHECK_FALSE(changed([](float v, size_t i) { return v + 0.1f * static_cast<float>(i % 10 + 1); }).explains_all);
  // fp16: the nearest of all halves, ties to the even one
  expect(changed([](float v, size_t) {
           if (std::abs(v) >= 65520.0f) return std::copysign(HUGE_VALF, v);
           uint16_t nearest = 0;
           double least = HUGE_VAL;
           for (uint32_t h = 0; h < 0x7C00; ++h) {
             const double d = std::abs(static_cast<double>(float_of(f16_to_f32_bits(static_cast<uint16_t>(h)))) -
                                       std::abs(static_cast<double>(v)));
             if (d > least || (d == least && h % 2 == 1)) continue;
             least = d;
             nearest = static_cast<uint16_t>(h);
           }
           const float y = float_of(f16_to_f32_bits(nearest));
           return v < 0 ? -y : y;
         }),
         "output=fp16");
}

TEST_CASE("a random corruption is explained by nothing", "[quick]") {
  Bench bench(quantize_case("mxfp4", InputKind::boundary, 48, 128));
  auto dump = bench.correct(all_stages);
  for (size_t i = 5; i < find(dump, "codes").bytes.size(); i += 97) find(dump, "codes").bytes[i] ^= 0x21;
  const Diagnosis d = bench.diagnose_dump(dump);
  CHECK(!d.explains_all);
  CHECK(d.summary.find("no named policy explains this") == 0);
  CHECK(d.first_diverging == "codes");
  CHECK(d.causes.empty());  // every unchanged policy "explains" the 99 % that are right
}

TEST_CASE("a partial cause says what it leaves, and one that helps little is not listed", "[quick]") {
  // The kernel rounds its scales up, and 16 of its 3,072 bytes of codes are broken besides.
  Bench bench(quantize_case("mxfp4", InputKind::boundary, 48, 128));
  const auto rceil = bench.dump_of("mxfp4,scale_rule=rceil", {"scales", "codes"});
  auto dump = rceil;
  auto& bytes = find(dump, "codes").bytes;
  for (size_t i = 5; i < bytes.size(); i += bytes.size() / 16) bytes[i] ^= 0x21;
  const Diagnosis d = bench.diagnose_dump(dump);
  CHECK(!d.explains_all);
  REQUIRE(!d.causes.empty());
  CHECK(d.causes[0].text() == "scale_rule=rceil");
  const auto count = [&](const std::string& name, const std::vector<Array>& other) {
    auto all = other;
    const int packed = name == "codes" ? 4 : 0;
    const auto a = elements_of(find(dump, name), packed), b = elements_of(find(all, name), packed);
    uint64_t n = 0;
    for (size_t i = 0; i < a.size(); ++i) n += a[i] != b[i];
    return n;
  };
  CHECK(d.causes[0].before == count("codes", bench.arrays) + count("scales", bench.arrays));
  CHECK(d.causes[0].after == count("codes", rceil) + count("scales", rceil));
  for (const Cause& c : d.causes) CHECK(4 * c.after <= 3 * c.before);
}

TEST_CASE("a candidate made by NVIDIA's conversion functions is equal", "[quick]") {
#if FP4_HAVE_CUDA_TYPES
  for (const InputKind kind : {InputKind::boundary, InputKind::gaussian, InputKind::subnormal}) {
    Bench bench(quantize_case("mxfp4", kind, 48, 128));
    auto dump = bench.correct({"codes"});
    const auto x = Bench::floats(find(bench.arrays, "input"));
    const auto& scales = find(bench.arrays, "scales").bytes;
    for (size_t i = 0; i < x.size(); i += 2) {
      const auto code = [&](size_t k) {
        const float u = static_cast<float>(std::ldexp(static_cast<double>(x[k]), 127 - scales[k / 32]));
        return static_cast<unsigned>(__nv_cvt_float_to_fp4(u, __NV_E2M1, cudaRoundNearest));
      };
      find(dump, "codes").bytes[i / 2] = static_cast<unsigned char>(code(i) | code(i + 1) << 4);
    }
    CHECK(bench.diagnose_dump(dump).first_diverging.empty());
  }
#else
  WARN("skipped: cuda_fp4.h is not on this machine");
#endif
}

TEST_CASE("bundles do not depend on backend or threads, and damage is found", "[quick]") {
  test::TemporaryFolder folder;
  const auto cases = suite_cases("smoke");
  write_bundle("smoke", cases, folder / "a", false, "reference", 1);
  write_bundle("smoke", cases, folder / "b", false, "auto", 3);
  CHECK(test::read_text(folder / "a/manifest.json") == test::read_text(folder / "b/manifest.json"));
  const Bundle bundle = open_bundle(folder / "a");
  CHECK(check_bundle(bundle, "auto", 2).empty());
  std::string codes = test::read_text(folder / "a/mxfp4.boundary.8x64/codes.npy");
  codes.back() = static_cast<char>(codes.back() ^ 1);
  test::write_text(folder / "a/mxfp4.boundary.8x64/codes.npy", codes);
  const auto differences = check_bundle(bundle, "auto", 1);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].file == "mxfp4.boundary.8x64/codes.npy");
}

TEST_CASE("inputs in bf16 and fp16 are rounded to nearest, ties to even", "[quick]") {
  CHECK(rounded_to(RealType::bf16, 1.0f + 0x1p-8f) == 1.0f);
  CHECK(rounded_to(RealType::bf16, 1.0f + 0x3p-8f) == 1.0f + 0x1p-6f);
  CHECK(rounded_to(RealType::bf16, -1.0f - 0x1p-8f - 0x1p-20f) == -1.0f - 0x1p-7f);
  CHECK(rounded_to(RealType::fp16, 1.0f + 0x1p-11f) == 1.0f);
  CHECK(rounded_to(RealType::fp16, 0x1p-25f) == 0.0f);      // half of the smallest subnormal
  CHECK(rounded_to(RealType::fp16, 0x3p-25f) == 0x1p-23f);  // 1.5 of it
  CHECK(rounded_to(RealType::fp16, 65519.0f) == 65504.0f);
}

TEST_CASE("every pair of named accumulators has a witness or a bound", "[quick]") {
  int found = 0;
  for (const AccumulatorInfo& a : accumulator_table) {
    for (const AccumulatorInfo& b : accumulator_table) {
      if (&a >= &b || (&a > accumulator_table && &b > &a + 2))
        continue;  // of `exact` with all, of others with the next
      WitnessRequest r;
      r.model_a = a.name;
      r.model_b = b.name;
      const bool integers = a.row.kind == AccumulatorKind::integer || b.row.kind == AccumulatorKind::integer;
      r.words = integers ? "nvint4,tensor_scale=none" : "nvfp4,tensor_scale=none";
      r.count = 1;
      r.tries = 512;
      r.longest = 160;
      const WitnessResult w = find_witnesses(r);
      INFO(a.name << " " << b.name);
      CHECK(w.tried > 0);
      found += w.witnesses.empty() ? 0 : 1;
      for (const Case& c : w.cases) {
        const auto arrays = make_arrays(c, "reference", 1);
        CHECK(arrays[2].bytes != arrays[3].bytes);
      }
    }
  }
  CHECK(found >= 50);
}

TEST_CASE("a manifest of any other form is an Error that names it", "[quick]") {
  test::TemporaryFolder folder;
  Case c = quantize_case("mxfp4", InputKind::boundary, 2, 4);
  c.given_a.assign(8, 1.5f);
  write_bundle("test", {c}, folder / "bundle", false, "reference", 1);
  const Json manifest = open_manifest(folder / "bundle", "");
  int refused = 0, accepted = 0;
  const auto attempt = [&](const Json& changed) {
    try {
      const Bundle bundle = bundle_of(changed, folder.path() / "bundle");
      for (const Case& some : bundle.cases)
        for (const auto& [name, record] : some.stored) load_array(bundle, some, name);
      ++accepted;
    } catch (const Error& error) {
      ++refused;
      CHECK(std::string_view(error.what()).find("bundle") != std::string_view::npos);
    }
  };
  const Json flat = manifest.flatten();
  std::vector<Json::json_pointer> places = {Json::json_pointer("/cases"), Json::json_pointer("/cases/0"),
                                            Json::json_pointer("/cases/0/arrays"),
                                            Json::json_pointer("/cases/0/arrays/codes")};
  for (const auto& [pointer, value] : flat.items()) places.emplace_back(pointer);
  for (const Json::json_pointer& place : places) {
    for (const Json& other : {Json(nullptr), Json(true), Json(-1), Json(1e300), Json(1u << 25), Json("x"), Json("../x"),
                              Json(Json::array()), Json(Json::object()), Json(Json::array({1, "x"}))}) {
      INFO(place.to_string() << " = " << other.dump());
      Json changed = manifest;
      changed[place] = other;
      CHECK_NOTHROW(attempt(changed));
    }
    Json without = manifest;
    if (Json& parent = without[place.parent_pointer()]; parent.is_object()) parent.erase(place.back());
    CHECK_NOTHROW(attempt(without));
  }
  test::write_text(folder / "bundle/manifest.json", std::string(100000, '['));
  CHECK_THROWS_WITH(open_bundle(folder / "bundle"), Catch::Contains("nested deeper than 64 levels"));
  CHECK(refused > 300);
  CHECK(accepted > 0);
}

TEST_CASE("bundles of schema 1 are read and checked by the hashes that they have", "[quick]") {
  test::TemporaryFolder folder;
  write_bundle("test", {quantize_case("mxfp4", InputKind::boundary, 2, 32)}, folder / "bundle", false, "reference", 1);
  Json manifest = open_manifest(folder / "bundle", "");
  for (const char* key : {"manifest_sha256", "schema"}) {
    Json without = manifest;
    without.erase(key);
    test::write_text(folder / "bundle/manifest.json", without.dump());
    CHECK_THROWS_WITH(open_bundle(folder / "bundle"), Catch::Contains("manifest.json is damaged"));
  }
  manifest["schema"] = 1;
  manifest.erase("manifest_sha256");
  for (auto& [name, array] : manifest["cases"][0]["arrays"].items()) array.erase("file_sha256");
  test::write_text(folder / "bundle/manifest.json", manifest.dump());
  const Bundle old = open_bundle(folder / "bundle");
  CHECK(check_bundle(old, "auto", 1).empty());
  std::string codes = test::read_text(folder / "bundle/case/codes.npy");
  codes.back() = static_cast<char>(codes.back() ^ 1);
  test::write_text(folder / "bundle/case/codes.npy", codes);
  CHECK_THROWS_WITH(load_array(old, old.cases[0], "codes"), Catch::Contains("case/codes.npy is damaged"));
}
