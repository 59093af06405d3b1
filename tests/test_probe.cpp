// Do the words that devices gave equal the rows that claim them, and does a dump name the adder behind it? Dumps of our
// own rows, each with one parameter changed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "fp4/accumulate.h"
#include "fp4/rng.h"
#include "src/golden/probe_dump.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::golden;

namespace {

struct Random {
  uint64_t i = 0;
  uint32_t seed = 1;
  uint32_t operator()(uint32_t n) { return random_draw({seed, 0, 0}, i++, 32) % n; }
};

// Codes near one exponent, halves that cancel but for two products, zeros; scales apart; C beside the sum or against
// it.
ProbeSection section_of(Element element, Scale scale, int block, int64_t k, const ProbeModel& model, int count) {
  ProbeSection s;
  s.a = s.b = element;
  s.tf32 = element == Element::fp32;
  s.scale = scale;
  s.block = block;
  s.is_half = model.row.is_half;
  const FloatFormat& f = format_of(element);
  Random random;
  for (int i = 0; i < count; ++i) {
    ProbeSum sum;
    const uint32_t fields = 1u << f.exponent_bits, middle = random(fields),
                   spread = 1 + random(fields < 32 ? fields : 32);
    const auto code = [&] {
      const uint32_t field = (middle + random(spread)) % (fields - (f.has_infinity || f.has_nan() ? 1 : 0));
      return field << f.mantissa_bits | random(1u << f.mantissa_bits) | (random(2) != 0 ? f.sign_code() : 0u);
    };
    for (int64_t j = 0; j < k; ++j) {
      sum.a.push_back(random(6) == 0 ? 0u : code());
      sum.b.push_back(code());
    }
    if (random(3) != 0) {
      for (int64_t j = 0; j < k / 2; ++j) {
        sum.a[static_cast<size_t>(k / 2 + j)] = sum.a[static_cast<size_t>(j)] ^ f.sign_code();
        sum.b[static_cast<size_t>(k / 2 + j)] = sum.b[static_cast<size_t>(j)];
      }
      for (int j = 0; j < 2; ++j) sum.b[random(static_cast<uint32_t>(k))] = code();
    }
    const uint32_t top = block > 0 ? format_of(scale).largest_code : 0;
    for (int64_t j = 0; block > 0 && j < k / block; ++j) {
      const uint32_t apart = random(2) != 0 ? random(4) : random(48);
      sum.sa.push_back(scale == Scale::e8m0 ? 120 - apart : random(2) != 0 ? 1 + random(4) : top - random(6));
      sum.sb.push_back(scale == Scale::e8m0 ? 120 + random(3) : random(2) != 0 ? 1 + random(4) : top - random(6));
    }
    sum.c = 0;
    sum.d = probe_word(s, sum, model);
    const uint32_t sign = s.is_half ? 0x8000u : float_sign_bit;
    switch (random(4)) {
      case 0: break;
      case 1: sum.c = sum.d ^ sign ^ random(8); break;
      default: {
        const int shift = s.is_half ? 10 : 23;
        const uint32_t fields_of_c = s.is_half ? 31 : 255, near = (sum.d & (sign - 1)) >> shift;
        const uint32_t field = std::min(near + random(24), fields_of_c - 1 + 12) - std::min(near, 12u);
        sum.c = std::min(field, fields_of_c - 1) << shift | random(1u << shift) | (random(2) != 0 ? sign : 0u);
      }
    }
    sum.d = probe_word(s, sum, model);
    s.sums.push_back(sum);
  }
  return s;
}

const Accumulator& row_of_name(const char* name) { return find_row(accumulator_table, std::string_view(name))->row; }

void expect(const ProbeSection& s, const std::string& change) {
  const ProbeVerdict v = judge_probe(s);
  INFO(v.equal << " of " << v.total << " from " << v.nearest);
  for (const std::string& c : v.changes) INFO(c);
  CHECK(v.is_explained());
  CHECK(v.equals.empty());
  REQUIRE(v.changes.size() == 1);
  CHECK_THAT(v.changes[0], Catch::Contains(change));
}

}  // namespace

TEST_CASE("the rows of a B200 give the words that were published", "[quick]") {
  const ProbeDump dump = read_probe("tests/golden/device_words.txt");
  CHECK(dump.device == "NVIDIA B200");
  int words = 0;
  for (const ProbeSection& s : dump.sections) {
    const std::string row = s.instruction == "tcgen05.mma.mxf4nvf4"                                     ? "b200_nvf4"
                            : s.instruction == "tcgen05.mma.mxf4"                                       ? "b200_mxf4"
                            : s.instruction == "tcgen05.mma.tf32"                                       ? "b200_tf32"
                            : s.instruction == "tcgen05.mma.bf16" || s.instruction == "tcgen05.mma.f16" ? "b200_16bit"
                                                                                                        : "b200_f8f6f4";
    INFO(s.instruction);
    const ProbeVerdict v = judge_probe(s);
    CHECK(std::find(v.equals.begin(), v.equals.end(), row) != v.equals.end());
    words += static_cast<int>(s.sums.size());
  }
  CHECK(words == 11);
}

TEST_CASE("Hopper's rows give the words of an H200", "[quick]") {
  const ProbeDump dump = read_probe("tests/golden/hopper_words.txt");
  CHECK(dump.sections.size() == 14);
  for (const ProbeSection& s : dump.sections) {
    INFO(s.instruction);
    CHECK(s.sums.size() == 10);
    const bool is_8bit = s.a == Element::e4m3 || s.a == Element::e5m2;
    const char* wide = s.is_half ? "hopper_16bit_f16_d" : s.tf32 ? "hopper_tf32" : "hopper_16bit";
    ProbeModel m = {
        row_of_name(is_8bit && s.instruction[0] == 'w' ? s.is_half ? "hopper_fp8_f16_d" : "hopper_fp8" : wide)};
    if (is_8bit && s.instruction[0] == 'm') {  // made of two instructions on fp16
      m.stride = 4;
      m.adds_c_last = true;
    }
    for (const ProbeSum& sum : s.sums) CHECK(probe_word(s, sum, m) == sum.d);
    const ProbeVerdict v = judge_probe(s);
    CHECK(v.is_explained());
    CHECK(v.equals.empty() == (m.stride == 4));
  }
}

// Blocks of 16 under UE8M0: 2^-149, then 2^-174, then -1.5*2^-174, which lie 25 binades lower. Where the products lead,
// nothing is cut: the sum lies below 2^-149 and is 0. The older models cut the last dot at 2^-174, and 2^-149 is left.
TEST_CASE("MXFP4's sums below the smallest number differ from the older models", "[quick]") {
  ProbeSection s;
  s.scale = Scale::e8m0;
  s.block = 16;
  ProbeSum sum;
  sum.a.assign(64, 0);
  sum.b.assign(64, 0);
  sum.a[0] = sum.b[0] = sum.a[16] = sum.b[16] = sum.b[32] = 2;  // 1
  sum.a[32] = 8 | 3;                                            // -1.5
  sum.sa = {0, 0, 0, 0};                                        // 2^-127
  sum.sb = {105, 80, 80, 80};                                   // 2^-22, 2^-47
  CHECK(probe_word(s, sum, {row_of_name("b200_mxf4")}) == 0);
  CHECK(probe_word(s, sum, {row_of_name("fused35_rz_2026_08")}) == 1);
  // and dots below 2^-174 whose scales are not the largest are left out of a subnormal sum: -0.5*2^-174 alone would
  // take 2^-149 to 0
  sum.a[16] = 0;
  sum.a[32] = 8 | 1;
  CHECK(probe_word(s, sum, {row_of_name("b200_mxf4")}) == 0);
  sum.a[0] = 4;  // 2 * 2^-149 - 2^-175 is subnormal
  CHECK(probe_word(s, sum, {row_of_name("b200_mxf4")}) == 2);
  Accumulator without = row_of_name("b200_mxf4");
  without.subnormal_floor = no_subnormal_floor;
  CHECK(probe_word(s, sum, {without}) == 1);
}

TEST_CASE("sums without products, special codes and C alone", "[quick]") {
  ProbeSection s;
  s.scale = Scale::ue4m3;
  s.block = 16;
  ProbeSum sum;
  sum.a.assign(64, 0);
  sum.b.assign(64, 2);
  sum.sa = sum.sb = {0x38, 0x38, 0x38, 0x38};
  const auto word = [&](uint32_t c) {
    sum.c = c;
    return probe_word(s, sum, {row_of_name("b200_nvf4")});
  };
  for (const uint32_t c : {0x3F800001u, 0x80000001u, 0xFF800000u, 0x7F7FFFFFu}) CHECK(word(c) == c);
  CHECK(word(0x80000000u) == 0);
  CHECK(word(0x7F800001u) == canonical_nan_bits);
  sum.sa[3] = 0x7F;
  CHECK(word(0x3F800000u) == canonical_nan_bits);
  s.scale = Scale::none;
  s.block = 0;
  s.tf32 = true;
  s.a = s.b = Element::fp32;
  sum = {std::vector<uint32_t>(8, 0x3F800000u), std::vector<uint32_t>(8, 0x3F800000u), {}, {}, 0, 0};
  sum.a[0] = 0x7F800001;  // its payload is cleared: infinity
  CHECK(probe_word(s, sum, {row_of_name("b200_tf32")}) == float_infinity_bits);
  sum.a[0] = 0x7FC00000;
  CHECK(probe_word(s, sum, {row_of_name("b200_tf32")}) == canonical_nan_bits);
}

TEST_CASE("a dump of a named row is named", "[quick]") {
  const struct {
    const char* row;
    Element element;
    Scale scale;
    int block;
    int64_t k;
  } kinds[] = {{"b200_nvf4", Element::e2m1, Scale::ue4m3, 16, 64},  {"b200_f8f6f4", Element::e4m3, Scale::none, 0, 32},
               {"b200_tf32", Element::fp32, Scale::none, 0, 8},     {"hopper_fp8", Element::e4m3, Scale::none, 0, 64},
               {"ampere_16bit", Element::fp16, Scale::none, 0, 16}, {"b200_f16_d", Element::e5m2, Scale::none, 0, 32},
               {"cdna3_fp8", Element::e4m3, Scale::none, 0, 32},    {"cdna4_isa", Element::e4m3, Scale::e8m0, 32, 64}};
  for (const auto& kind : kinds) {
    INFO(kind.row);
    const ProbeVerdict v =
        judge_probe(section_of(kind.element, kind.scale, kind.block, kind.k, {row_of_name(kind.row)}, 300));
    CHECK(v.is_explained());
    REQUIRE(!v.equals.empty());
    CHECK(v.equals[0] == kind.row);
    for (const std::string& other : v.equals)  // Hopper's rows have a B200's numbers
      CHECK(find_row(accumulator_table, other)->row == row_of_name(kind.row));
  }
}

TEST_CASE("a dump of a row with one parameter changed names the parameter", "[quick]") {
  const auto changed = [](const char* name, auto change) {
    ProbeModel m = {row_of_name(name)};
    change(m);
    return m;
  };
  const auto fp8 = [&](auto change) {
    return section_of(Element::e4m3, Scale::none, 0, 32, changed("b200_f8f6f4", change), 400);
  };
  expect(fp8([](ProbeModel& m) { m.row.group = 4; }), "group=4 instead of 32");
  expect(fp8([](ProbeModel& m) { m.row.fraction_bits = 22; }), "fraction_bits=22");
  expect(fp8([](ProbeModel& m) { m.row.rounding = Rounding::nearest_even; }), "rounding=nearest_even");
  expect(fp8([](ProbeModel& m) { m.row.result_bits = 20; }), "result_bits=20");
  expect(fp8([](ProbeModel& m) { m.adds_c_last = true; }), "c_last=1");
  const auto bf16 = [&](auto change) {
    return section_of(Element::bf16, Scale::none, 0, 16, changed("ampere_16bit", change), 400);
  };
  expect(bf16([](ProbeModel& m) { m.descending = true; }), "descending=1");
  expect(bf16([](ProbeModel& m) { m.stride = 2; }), "stride=2");
  const auto nvf4 = [&](auto change) {
    return section_of(Element::e2m1, Scale::ue4m3, 16, 64, changed("b200_nvf4", change), 2000);
  };
  expect(nvf4([](ProbeModel& m) { m.row.scale_bits = 30; }), "scale_bits=30");
  expect(nvf4([](ProbeModel& m) { m.row.carried_bits = 28; }), "carried_bits=28");
  const auto mxf4 = [&](auto change) {
    return section_of(Element::e2m1, Scale::e8m0, 32, 64, changed("fused35_rz", change), 1000);
  };
  expect(mxf4([](ProbeModel& m) { m.row.zero_exponent = -20; }), "zero_exponent=-20");
}

// Every adder gives all of no words.
TEST_CASE("an instruction without sums equals nothing", "[quick]") {
  const ProbeVerdict v = judge_probe(section_of(Element::e4m3, Scale::none, 0, 32, {row_of_name("b200_f8f6f4")}, 0));
  CHECK(v.equals.empty());
  CHECK_FALSE(v.is_explained());
}

// An exact model that shares no code with the program (tools/scripts/oracle.py, SUM_KINDS).
TEST_CASE("adversarial sums of an exact model are those of the rows", "[cli]") {
  const char* given = std::getenv("FP4SIM_PYTHON");
  const std::string python = given != nullptr ? given : "/usr/bin/python3";
  const test::TemporaryFolder folder;
  const std::string path = folder / "sums.txt";
  const char* rows[][2] = {{"b200_nvf4", "b200_nvf4"},
                           {"b200_mxf4", "b200_mxf4"},
                           {"b200_mxf4_16", "b200_mxf4"},
                           {"b200_mxf8f6f4", "b200_f8f6f4"},
                           {"b200_mxf8f6f4_mixed", "b200_f8f6f4"},
                           {"b200_f8f6f4", "b200_f8f6f4"},
                           {"b200_f8f6f4_e5m2", "b200_f8f6f4"},
                           {"b200_f8f6f4_e2m1", "b200_f8f6f4"},
                           {"b200_f8f6f4_fp6", "b200_f8f6f4"},
                           {"b200_16bit", "b200_16bit"},
                           {"b200_16bit_fp16", "b200_16bit"},
                           {"b200_tf32", "b200_tf32"},
                           {"b200_f16_d", "b200_f16_d"},
                           {"b200_16bit_f16_d", "b200_16bit_f16_d"},
                           {"hopper_fp8", "hopper_fp8"},
                           {"hopper_fp8_f16_d", "hopper_fp8_f16_d"},
                           {"ampere_16bit", "ampere_16bit"},
                           {"ampere_tf32", "ampere_tf32"},
                           {"ada_fp8", "ada_fp8"}};
  for (const auto& [kind, row] : rows) {
    INFO(kind);
    const std::string words = std::string(" tools/scripts/oracle.py sums ") + kind + " --count 200 --seed 20261127";
    REQUIRE(test::run_shell(python + words + " > '" + path + "'").exit_code == 0);
    const ProbeDump dump = read_probe(path);
    REQUIRE(dump.sections.size() == 1);
    const ProbeSection& s = dump.sections[0];
    CHECK(s.sums.size() == 200);
    int wrong = 0;
    for (const ProbeSum& sum : s.sums) wrong += probe_word(s, sum, {row_of_name(row)}) != sum.d ? 1 : 0;
    CHECK(wrong == 0);
  }
}

TEST_CASE("a dump that is none is an Error that names its line", "[quick]") {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const char* words) {
    const std::string path = folder / "probe.txt";
    test::write_text(path, text);
    CHECK_THROWS_WITH(read_probe(path), Catch::Contains(words));
  };
  const std::string head = "probe 1 X\n", nvf4 = "instruction i a=e2m1 b=e2m1 scale=ue4m3 block=16 d=fp32\n";
  refused("", "no `instruction` line");
  refused("probe 2 X\n", "line 1");
  refused(head + "00 00 - - 0 0\n", "line 2: a sum before");
  refused(head + "instruction i a=e2m9 b=e2m1 scale=none block=0 d=fp32\n", "unknown word 'e2m9'");
  refused(head + "instruction i a=e2m1 b=e2m1 scale=none block=16 d=fp32\n", "block must be 0");
  refused(head + "instruction i a=e2m1 b=e2m1 scale=none block=0 d=fp8\n", "d: unknown word 'fp8'");
  refused(head + nvf4 + "0000000000000000 0000000000000000 3838 38 00000000 00000000\n", "line 3: SA '3838'");
  refused(head + nvf4 + "0000000000000000 000000000000000 38 38 00000000 00000000\n", "line 3: B '");
  refused(head + nvf4 + "0000000000000000 0000000000000000 88 38 00000000 00000000\n", "more than 7 bits");
  refused(head + nvf4 + "0000000000000000 0000000000000000 38 38 00000000 00000000 1\n", "'1' after the last word");
}
