// Does the C interface give the bits of the definitions, and messages instead of crashes? fp4sim.h must be C.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cfenv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include "src/c_api/fp4sim.h"
#include "src/files/tensor_reader.h"
#include "src/files/tensor_writer.h"
#include "tests/support/host_floats.h"
#include "tests/support/support.h"

TEST_CASE("a code with bits beyond its format is no code", "[quick]") {
  uint8_t codes[64] = {}, scale[2] = {127, 127};
  const float one = 1;
  float y[64] = {};
  codes[32 + 3] = 0x45;  // six bits hold 0x05
  CHECK(fp4sim_dequantize("mxfp6", 2, 32, codes, scale, &one, y) == 2);
  CHECK(std::string(fp4sim_last_error()) == "codes: row 1, column 3 holds 69; accepted: codes of 6 bits, 0 to 63");
  const fp4sim_operand a = {"mxfp6", codes, scale, &one};
  CHECK(fp4sim_gemm_codes(&a, &a, "fp32_block", 2, 2, 32, nullptr, y) == 2);
  codes[32 + 3] = 0x05;
  CHECK(fp4sim_dequantize("mxfp6", 2, 32, codes, scale, &one, y) == 0);
  codes[32 + 3] = 0x45;  // all eight bits of E4M3
  CHECK(fp4sim_dequantize("mxfp8", 2, 32, codes, scale, &one, y) == 0);
}

TEST_CASE("the worked block of eight through C", "[quick]") {
  const float x[8] = {6.5f, -3.5f, 2.5f, 1.5f, 0.75f, -0.25f, 5, 0.5f};
  const char* spec = "mxfp4,block=8,scale_rule=rceil";
  fp4sim_array_shape shape;
  REQUIRE(fp4sim_shape(spec, 1, 8, &shape) == 0);
  CHECK(shape.code_row_bytes == 4);
  CHECK(shape.scale_rows * shape.scale_cols * shape.scale_bytes == 1);
  CHECK(shape.tensor_scales == 1);
  uint8_t codes[4], scale;
  float g, y[8];
  REQUIRE(fp4sim_quantize(spec, x, 1, 8, {0, 0, 0}, codes, &scale, &g) == 0);
  const uint8_t expected[4] = {0xC5, 0x22, 0x81, 0x04};
  CHECK(std::memcmp(codes, expected, 4) == 0);
  CHECK(scale == 128);
  REQUIRE(fp4sim_dequantize(spec, 1, 8, codes, &scale, &g, y) == 0);
  const float decoded[8] = {6, -4, 2, 2, 1, -0.0f, 4, 0};
  CHECK(std::memcmp(y, decoded, sizeof y) == 0);
}

TEST_CASE("products and transforms through C", "[quick]") {
  float a[128] = {}, b[128] = {}, c = 0;
  a[0] = 0x1p22f;
  a[32] = a[64] = 1.5f;
  b[0] = 4;
  b[32] = b[64] = 1;
  REQUIRE(fp4sim_gemm("mxfp4", "mxfp4", "k64_rz", a, b, 1, 1, 128, {0, 0, 0}, &c) == 0);
  CHECK(c == 16777218.0f);
  float e[16] = {1}, h[16];
  REQUIRE(fp4sim_hadamard(e, 1, 16, 16, "none", "sqrt", {0, 0, 0}, h) == 0);
  for (const float v : h) CHECK(v == 0.25f);
}

// 16777218 = 2^24 + 2. fl32(16777218 + 1.5) = 16777220: the tie 16777219.5 is none, 16777220 is nearer.
TEST_CASE("products of given codes with alpha, beta, bias and 16-bit outputs through C", "[quick]") {
  float a[128] = {}, b[128] = {};
  a[0] = 0x1p22f;
  a[32] = a[64] = 1.5f;
  b[0] = 4;
  b[32] = b[64] = 1;
  uint8_t a_codes[64], b_codes[64], a_scales[4], b_scales[4];
  float a_g, b_g, c = 0;
  REQUIRE(fp4sim_quantize("mxfp4", a, 1, 128, {0, 0, 0}, a_codes, a_scales, &a_g) == 0);
  REQUIRE(fp4sim_quantize("mxfp4", b, 1, 128, {0, 0, 0}, b_codes, b_scales, &b_g) == 0);
  const fp4sim_operand left = {"mxfp4", a_codes, a_scales, &a_g}, right = {"mxfp4", b_codes, b_scales, &b_g};
  const auto product = [&](const fp4sim_epilogue* e, void* d) {
    return fp4sim_gemm_codes(&left, &right, "k64_rz", 1, 1, 128, e, d);
  };
  REQUIRE(product(nullptr, &c) == 0);
  CHECK(c == 16777218.0f);
  const float bias = 1.5f, old = 2;
  const fp4sim_epilogue plain = {1, 0, nullptr, &bias, "fp32"};
  REQUIRE(product(&plain, &c) == 0);
  CHECK(c == 16777220.0f);
  // fl32(2^-24 * 16777218) = 1.00000011920929 (1 + 2^-23), - 0.5 * 2 leaves 2^-23, + 1.5.
  const fp4sim_epilogue all = {0x1p-24f, -0.5f, &old, &bias, "fp32"};
  REQUIRE(product(&all, &c) == 0);
  CHECK(c == 1.5f + 0x1p-23f);
  uint16_t d = 0;
  const fp4sim_epilogue half = {0x1p-10f, 0, nullptr, nullptr, "fp16"};  // 16384.002 to 16384
  REQUIRE(product(&half, &d) == 0);
  CHECK(d == 0x7400);
  const fp4sim_epilogue over = {1, 0, nullptr, nullptr, "fp16"};
  REQUIRE(product(&over, &d) == 0);
  CHECK(d == 0x7C00);
  const fp4sim_epilogue brain = {-1.5f, 0, nullptr, nullptr, "bf16"};  // -25165827 to -25165824 = -1.5 * 2^24
  REQUIRE(product(&brain, &d) == 0);
  CHECK(d == 0xCBC0);
  const fp4sim_epilogue wrong = {1, 0, nullptr, nullptr, "fp8"};
  CHECK(product(&wrong, &d) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("fp8") && Catch::Contains("bf16"));
  const fp4sim_epilogue hollow = {1, 1, nullptr, nullptr, "fp32"};
  CHECK(product(&hollow, &c) == 2);
}

TEST_CASE("bad input gives a code and a message", "[quick]") {
  float x = 1;
  uint8_t byte;
  CHECK(fp4sim_quantize("mxfp5", &x, 1, 1, {0, 0, 0}, &byte, &byte, &x) == 2);
  CHECK(std::string(fp4sim_last_error()).find("mxfp5") != std::string::npos);
  CHECK(fp4sim_quantize("mxfp4", nullptr, 1, 1, {0, 0, 0}, &byte, &byte, &x) == 2);
  fp4sim_array_shape shape;
  CHECK(fp4sim_shape("mxfp4", INT64_MAX, INT64_MAX, &shape) == 2);
  // Nothing to do, 2^62 times.
  constexpr int64_t endless = int64_t{1} << 62;
  float none = 0, scale = 0;
  uint8_t code = 0;
  for (const auto& [rows, cols] : {std::pair{endless, int64_t{0}}, {int64_t{0}, endless}, {endless, int64_t{1}}}) {
    CHECK(fp4sim_shape("mxfp4,tensor_scale=row", rows, cols, &shape) == 2);
    CHECK(fp4sim_quantize("mxfp4", &none, rows, cols, {0, 0, 0}, &code, &code, &scale) == 2);
    CHECK(fp4sim_dequantize("mxfp4", rows, cols, &code, &code, &scale, &none) == 2);
    CHECK(fp4sim_gemm("mxfp4", "mxfp4", "k64_rz", &none, &none, rows, 1, cols, {0, 0, 0}, &none) == 2);
  }
  CHECK(fp4sim_shape("mxfp4", 1, 32, &shape) == 0);
  CHECK(std::string(fp4sim_last_error()).empty());
}

// Where a check is possible: the address itself, and two arrays whose sizes are known.
TEST_CASE("pointers that cannot be right give a code and a message", "[quick]") {
  alignas(4) uint8_t room[512] = {}, codes[128] = {};
  alignas(4) uint8_t scales[64] = {};
  float x[128] = {}, y[128] = {}, g[4] = {};
  const auto at = [&](int offset) { return reinterpret_cast<float*>(room + offset); };
  const char *real = "mxfp4,scale=fp32,scale_rule=amax", *off = "off the alignment",
             *on = "the result lies on an input";
  const auto quantize = [&](const char* spec, const float* in, void* s, float* t) {
    return fp4sim_quantize(spec, in, 1, 32, {0, 0, 0}, codes, s, t);
  };
  const auto dequantize = [&](const void* s, const float* t, float* out) {
    return fp4sim_dequantize(real, 1, 32, codes, s, t, out);
  };
  const auto gemm = [&](const float* a, const float* b, float* c) {
    return fp4sim_gemm("mxfp4", "mxfp4", "k64_rz", a, b, 2, 2, 16, {0, 0, 0}, c);
  };
  const auto of_codes = [&](const void* s, const float* t, const fp4sim_epilogue& e) {
    const fp4sim_operand a = {real, codes, scales, g}, b = {real, codes, s, t};
    return fp4sim_gemm_codes(&a, &b, "k64_rz", 1, 1, 32, &e, y);
  };
  const auto hadamard = [&](const float* in, int64_t cols, float* out) {
    return fp4sim_hadamard(in, 2, cols, 16, "none", "sqrt", {0, 0, 0}, out);
  };
  const fp4sim_epilogue plain = {1, 0, nullptr, nullptr, "fp32"};
  const std::vector<std::tuple<const char*, std::function<int()>, const char*>> rows = {
      {"operand", [&] { return quantize("mxfp4", at(1), scales, g); }, off},
      {"factor", [&] { return quantize("mxfp4", x, scales, at(2)); }, off},
      {"real scales", [&] { return quantize(real, x, scales + 2, g); }, off},
      {"scales of bytes", [&] { return quantize("mxfp4", x, scales + 1, g); }, ""},
      {"real scales to decode", [&] { return dequantize(scales + 1, g, y); }, off},
      {"values", [&] { return dequantize(scales, g, at(3)); }, off},
      {"real scales of b", [&] { return of_codes(scales + 1, g, plain); }, off},
      {"factor of b", [&] { return of_codes(scales, at(1), plain); }, off},
      {"c",
       [&] {
         return of_codes(scales, g, {1, 1, at(3), nullptr, "fp32"});
       },
       off},
      {"bias",
       [&] {
         return of_codes(scales, g, {1, 0, nullptr, at(1), "fp32"});
       },
       off},
      {"product on a", [&] { return gemm(x, y, x + 31); }, on},
      {"product on b", [&] { return gemm(x, y + 8, y + 5); }, on},
      {"product behind b", [&] { return gemm(x, y, y + 32); }, ""},
      {"product of 2^46 elements",
       [&] {
         return fp4sim_gemm("mxfp4", "mxfp4", "k64_rz", x, x, 1 << 23, 1 << 23, 0, {0, 0, 0}, y);
       },
       "impossible shape"},
      {"rows moved", [&] { return hadamard(x, 16, x + 16); }, on},
      {"in place", [&] { return hadamard(x, 16, x); }, ""},
      {"in place and padded", [&] { return hadamard(x, 15, x); }, on},
  };
  for (const auto& [name, call, words] : rows) {
    INFO(name);
    CHECK(call() == (*words == 0 ? 0 : 2));
    CHECK_THAT(fp4sim_last_error(), Catch::Contains(words));
  }
}

// Bytes of others as codes and scales: each reads as a value or NaN, or is refused where it is no code of six bits.
TEST_CASE("any bytes are codes and scales, or refused", "[quick]") {
  for (const char* spec : {"mxfp4", "nvfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8", "bf16", "fp32", "mxfp4,block=32x32",
                           "mxfp4,scale=fp32,scale_rule=amax", "nvfp4,tensor_scale=outer128"}) {
    INFO(spec);
    fp4sim_array_shape shape;
    REQUIRE(fp4sim_shape(spec, 3, 40, &shape) == 0);
    for (const uint32_t start : {0u, 0x55u, 0xFFu}) {
      const auto bytes = [&](int64_t count) {
        std::vector<uint8_t> out(static_cast<size_t>(count));
        for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(start - i * (start == 0xFF ? 0 : 37));
        return out;
      };
      const auto codes = bytes(3 * shape.code_row_bytes);
      const auto given = bytes(shape.scale_rows * shape.scale_cols * shape.scale_bytes);
      std::vector<float> scales(given.size() / 4 + 1), factors(static_cast<size_t>(shape.tensor_scales)), y(120), c(9);
      std::copy(given.begin(), given.end(), reinterpret_cast<uint8_t*>(scales.data()));
      for (float& factor : factors) std::memset(&factor, static_cast<int>(start), sizeof factor);
      const fp4sim_operand a = {spec, codes.data(), scales.data(), factors.data()};
      const bool has_six_bits = std::string(spec).starts_with("mxfp6");
      const int code =
          has_six_bits && std::any_of(codes.begin(), codes.end(), [](uint8_t c) { return c > 63; }) ? 2 : 0;
      CHECK(fp4sim_dequantize(spec, 3, 40, codes.data(), scales.data(), factors.data(), y.data()) == code);
      CHECK(fp4sim_gemm_codes(&a, &a, "fp32_block", 3, 3, 40, nullptr, c.data()) == code);
      for (size_t row = 0; row < 3; ++row) {  // what decodes to NaN makes its products NaN
        const bool has_nan = std::any_of(&y[40 * row], &y[40 * row] + 40, [](float v) { return std::isnan(v); });
        if (has_nan) CHECK(std::isnan(c[4 * row]));
      }
    }
  }
}

// What the command line refuses, too: `force` is for results, not for what the call reads.
TEST_CASE("no call replaces what it reads", "[quick]") {
  const fp4::test::TemporaryFolder folder;
  const std::string model = folder / "m", in = model + "/m.safetensors", out = folder / "q";
  std::filesystem::create_directory(model);
  {
    fp4::SafetensorsWriter writer(in, {{"a.weight", fp4::Dtype::f32, {2, 32}}});
    writer.write(std::vector<float>(64, 1.0f).data(), 256);
    writer.commit();
  }
  const auto before = fp4::test::read_text(in);
  fp4sim_quantize_options o = {};
  o.run.force = 1;
  o.scheme = "modelopt_mxfp4";
  for (const std::string& from : {in, model})
    CHECK(fp4sim_quantize_file(from.c_str(), model.c_str(), &o, nullptr) == 2);
  o.scheme = nullptr;
  o.spec = "mxfp4";
  o.follow_links = 1;
  CHECK(fp4sim_quantize_file(in.c_str(), out.c_str(), &o, nullptr) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("follow_links") && Catch::Contains("belong to a scheme"));
  o.follow_links = 0;
  REQUIRE(fp4sim_quantize_file(in.c_str(), out.c_str(), &o, nullptr) == 0);
  CHECK(fp4sim_quantize_file((out + "/dequantized.npy").c_str(), out.c_str(), &o, nullptr) == 2);
  fp4sim_dequantize_options d = {};
  d.run.force = 1;
  CHECK(fp4sim_dequantize_file(out.c_str(), (out + "/codes.npy").c_str(), &d) == 2);
  CHECK(fp4sim_dequantize_file(out.c_str(), (folder / "y.npy").c_str(), &d) == 0);
  CHECK(fp4::test::read_text(in) == before);
}

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

// The block of eight above as a file.
TEST_CASE("a tensor file through C: codes, values, report, progress", "[quick]") {
  const float x[8] = {6.5f, -3.5f, 2.5f, 1.5f, 0.75f, -0.25f, 5, 0.5f};
  const fp4::test::TemporaryFolder folder;
  const std::string raw = folder / "x.bin", out = folder / "out", decoded = folder / "y.npy";
  std::ofstream(raw, std::ios::binary).write(reinterpret_cast<const char*>(x), sizeof x);
  fp4sim_quantize_options o = {};
  o.input.dtype = "f32";
  o.input.shape = "1x8";
  o.spec = "mxfp4,block=8,scale_rule=rceil";
  uint64_t seen = 0;
  o.run.user = &seen;
  o.run.progress = [](uint64_t done, uint64_t all, const char* tensor, void* user) {
    CHECK(done == all);
    CHECK(std::string(tensor).empty());
    *static_cast<uint64_t*>(user) += all;
  };
  fp4sim_report report;
  REQUIRE(fp4sim_quantize_file(raw.c_str(), out.c_str(), &o, &report) == 0);
  CHECK(seen == sizeof x);
  // 6 -4 2 2 1 -0 4 0 (scale 128 = 2): errors .5 .5 .5 .5 .25 .25 1 .5, squares 42.25 12.25 6.25 2.25 .5625 .0625 25
  // .25
  CHECK(report.elements == 8);
  CHECK(report.nmse == (5 * 0.25 + 2 * 0.0625 + 1) / 88.875);
  CHECK(report.largest_error == 1);
  CHECK(report.zeros == 0.25);
  CHECK(report.underflows == 0.25);
  CHECK(report.bytes == 5);
  CHECK(report.bits_per_element == 5);
  CHECK(report.tensors == 1);
  const std::string codes = bytes_of(out + "/codes.npy");
  CHECK(codes.substr(codes.size() - 4) == std::string("\xC5\x22\x81\x04", 4));
  CHECK(fp4sim_quantize_file(raw.c_str(), out.c_str(), &o, nullptr) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains(out) && Catch::Contains("--force"));
  o.run.force = 1;
  CHECK(fp4sim_quantize_file(raw.c_str(), out.c_str(), &o, nullptr) == 0);
  fp4sim_dequantize_options of_model = {};
  of_model.type = "bf16";
  CHECK(fp4sim_dequantize_file(out.c_str(), decoded.c_str(), &of_model) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("type, tensors") && Catch::Contains("belong to a model"));
  REQUIRE(fp4sim_dequantize_file(out.c_str(), decoded.c_str(), nullptr) == 0);
  const float expected[8] = {6, -4, 2, 2, 1, -0.0f, 4, 0};
  const std::string values = bytes_of(decoded);
  CHECK(std::memcmp(values.data() + values.size() - sizeof expected, expected, sizeof expected) == 0);
}

// bf16 weights that MXFP4 holds exactly, 1 2 3 4 .. and twice them, and a norm.
TEST_CASE("a model through C: scheme, list, comparison, and back", "[quick]") {
  const fp4::test::TemporaryFolder folder;
  const std::string in = folder / "m.safetensors", out = folder / "fp4", back = folder / "back";
  std::vector<uint16_t> w(64), norm(2, 0x3F80);
  for (size_t i = 0; i < 64; ++i)
    w[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>((1 + i % 4) << i / 32)) >> 16);
  {
    fp4::SafetensorsWriter writer(in,
                                  {{"a.weight", fp4::Dtype::bf16, {2, 32}}, {"norm.weight", fp4::Dtype::bf16, {2}}});
    writer.write(w.data(), 128);
    writer.write(norm.data(), 4);
    writer.commit();
  }
  fp4sim_quantize_options o = {};
  o.scheme = "compressed_tensors_mxfp4";
  fp4sim_report report;
  REQUIRE(fp4sim_quantize_file(in.c_str(), out.c_str(), &o, &report) == 0);
  CHECK(report.nmse == 0);
  CHECK(report.decibels == std::numeric_limits<double>::infinity());
  CHECK(report.tensors == 2);
  CHECK(report.kept == 1);
  CHECK(report.bytes == 34);
  std::string found;
  const auto tensor = [](const fp4sim_tensor* t, void* user) {
    auto& text = *static_cast<std::string*>(user);
    text += std::string(t->name) + " " + t->type + " [" + t->scheme + "] [" + t->spec + "]";
    for (int i = 0; i < t->rank; ++i) text += " " + std::to_string(t->shape[i]);
    text += " " + std::to_string(t->bytes) + "\n";
  };
  REQUIRE(fp4sim_inspect_file(out.c_str(), tensor, &found) == 0);
  CHECK(
      found ==
      "a.weight_packed u8 [compressed_tensors_mxfp4] [compressed_tensors_mxfp4] 2 32 34\nnorm.weight bf16 [] [] 2 4\n");
  std::string lines;
  const auto line = [](const char* name, const char* spec, const fp4sim_report* r, int best, void* user) {
    *static_cast<std::string*>(user) +=
        std::string(name) + " " + spec + (r->nmse == 0 ? " exact" : " near") + (best != 0 ? " best\n" : "\n");
  };
  const char* const specs[] = {"mxfp4,prescale=0.75", "mxfp4", "mxfp8", nullptr};
  REQUIRE(fp4sim_compare_file(in.c_str(), specs, nullptr, line, &lines) == 0);
  CHECK_THAT(lines,
             Catch::Contains("a.weight mxfp4,prescale=0.75 near\na.weight mxfp4 exact best\na.weight mxfp8 exact\n"));
  const char* const one[] = {"mxfp5", nullptr};
  CHECK(fp4sim_compare_file(in.c_str(), one, nullptr, line, &lines) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("mxfp5"));
  fp4sim_dequantize_options d = {};
  d.type = "bf16";
  REQUIRE(fp4sim_dequantize_file(out.c_str(), back.c_str(), &d) == 0);
  const std::string bytes = bytes_of(back + "/m.safetensors");
  CHECK(std::memcmp(bytes.data() + bytes.size() - 132, w.data(), 128) == 0);
  d.type = "f16";
  CHECK(fp4sim_dequantize_file(out.c_str(), back.c_str(), &d) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("f16") && Catch::Contains("bf16"));
  d = {};
  std::string flipped = bytes_of(out + "/m.safetensors");
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  fp4::test::write_text(out + "/m.safetensors", flipped);
  CHECK(fp4sim_dequantize_file(out.c_str(), (folder / "c").c_str(), &d) == 1);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("SHA-256"));
  d.changed = 1;
  CHECK(fp4sim_dequantize_file(out.c_str(), (folder / "c").c_str(), &d) == 0);
  CHECK(fp4sim_dequantize_file(in.c_str(), (folder / "n").c_str(), &d) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("nothing to decode"));
  fp4sim_quantize_options shaped = o;
  shaped.input.shape = "2x32";
  CHECK(fp4sim_quantize_file(in.c_str(), (folder / "s").c_str(), &shaped, nullptr) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("input") && Catch::Contains("not for a scheme"));
  const char* const nobody[] = {"b.*", nullptr};
  o.tensors = nobody;
  CHECK(fp4sim_quantize_file(in.c_str(), (folder / "none").c_str(), &o, nullptr) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("b.*"));
  CHECK(fp4sim_quantize_file(in.c_str(), nullptr, &o, nullptr) == 2);
}

// q, k and an embedding of 32 columns: q twice as large as k.
TEST_CASE("a model through C: what stays, shared factors, orders, what is not understood", "[quick]") {
  const fp4::test::TemporaryFolder folder;
  const std::string in = folder / "m.safetensors";
  std::vector<float> q(64), k(64, 1.0f);
  for (size_t i = 0; i < 64; ++i) q[i] = static_cast<float>(2 * (1 + i % 4));
  const std::vector<uint8_t> bytes(32, 7);
  {
    fp4::SafetensorsWriter writer(in, {{"l.q_proj.weight", fp4::Dtype::f32, {2, 32}},
                                       {"l.k_proj.weight", fp4::Dtype::f32, {2, 32}},
                                       {"embed_tokens.weight", fp4::Dtype::f32, {2, 32}},
                                       {"odd.weight", fp4::Dtype::u8, {2, 16}}});
    for (const auto* x : {&q, &k, &k}) writer.write(x->data(), 256);
    writer.write(bytes.data(), bytes.size());
    writer.commit();
  }
  int trial = 0;
  const auto made = [&](const fp4sim_quantize_options& o) {
    const std::string out = folder / std::to_string(trial++);
    INFO(fp4sim_last_error());
    REQUIRE(fp4sim_quantize_file(in.c_str(), out.c_str(), &o, nullptr) == 0);
    return out + "/m.safetensors";
  };
  const auto factor = [](const std::string& file, const char* name) {
    return fp4::load_floats(file + ":l." + name + ".weight_scale_2").values.at(0);
  };
  fp4sim_quantize_options o = {};
  o.scheme = "modelopt_nvfp4";
  CHECK(fp4sim_quantize_file(in.c_str(), (folder / "left").c_str(), &o, nullptr) == 1);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("odd.weight"));
  o.allow_left = 1;
  const std::string together = made(o);
  CHECK(factor(together, "q_proj") == factor(together, "k_proj"));
  o.fuse = "none";
  const std::string apart = made(o);
  CHECK(factor(apart, "q_proj") == 8 * factor(apart, "k_proj"));
  const char* const nothing[] = {"none", nullptr};
  o.keep_only = nothing;
  CHECK(fp4::load_raw(made(o) + ":embed_tokens.weight").dtype == fp4::Dtype::u8);
  o.keep_only = nullptr;
  const char* const more[] = {"*.k_proj.weight", nullptr};
  o.keep = more;
  const std::string kept = made(o);
  CHECK(fp4::load_raw(kept + ":l.k_proj.weight").dtype == fp4::Dtype::f32);
  CHECK(fp4::load_raw(kept + ":embed_tokens.weight").dtype == fp4::Dtype::f32);
  o.keep_only = nothing;
  CHECK(fp4sim_quantize_file(in.c_str(), (folder / "two").c_str(), &o, nullptr) == 2);
  o.keep = o.keep_only = nullptr;
  o.activations = "static";  // the source has no factor of inputs
  CHECK(fp4sim_quantize_file(in.c_str(), (folder / "inputs").c_str(), &o, nullptr) == 2);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("input_scale"));
  o.activations = nullptr;
  o.nibbles = "high_first";
  o.scale_layout = "128x4";
  const std::string tiled = made(o);
  auto codes = fp4::load_raw(apart + ":l.q_proj.weight").bytes;
  for (unsigned char& byte : codes) byte = static_cast<unsigned char>(byte >> 4 | byte << 4);
  CHECK(fp4::load_raw(tiled + ":l.q_proj.weight").bytes == codes);
  CHECK(fp4::load_raw(tiled + ":l.q_proj.weight_scale").bytes.size() == 512);
  int lines = 0;
  const auto count = [](const char*, const char*, const fp4sim_report* r, int, void* user) {
    *static_cast<int*>(user) += r->nmse < 0.02 ? 1 : 100;
  };
  const char* const specs[] = {"nvfp4", nullptr};
  fp4sim_compare_options c = {};
  c.nibbles = o.nibbles;
  c.scale_layout = o.scale_layout;
  CHECK(fp4sim_compare_file(tiled.c_str(), specs, &c, count, &lines) == 1);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("odd.weight"));
  c.allow_left = 1;
  CHECK(fp4sim_compare_file(tiled.c_str(), specs, &c, count, &lines) == 0);
  CHECK(lines == 3);
  c.nibbles = c.scale_layout = nullptr;  // the scales do not fit
  lines = 0;
  CHECK(fp4sim_compare_file(tiled.c_str(), specs, &c, count, &lines) == 0);
  CHECK(lines == 1);
  std::string flipped = bytes_of(tiled);
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  fp4::test::write_text(tiled, flipped);
  CHECK(fp4sim_compare_file(tiled.c_str(), specs, &c, count, &lines) == 1);
  CHECK_THAT(fp4sim_last_error(), Catch::Contains("SHA-256"));
  c.changed = 1;
  CHECK(fp4sim_compare_file(tiled.c_str(), specs, &c, count, &lines) == 0);
}

TEST_CASE("fp4sim.h is C99", "[quick]") {
  const auto r = fp4::test::run_shell(
      "printf '#include \"src/c_api/fp4sim.h\"\\nint main(void) { return 0; }\\n' | "
      "cc -std=c99 -Wall -Wextra -Werror -I. -fsyntax-only -x c -");
  INFO(r.err);
  CHECK(r.exit_code == 0);
}

namespace {

constexpr int64_t rows = 8, cols = 128;

// Numbers of many sizes: near 1, near 2^-120, whose products are subnormal, and subnormal ones, which DAZ reads as 0.
std::vector<float> operand() {
  std::vector<float> x(rows * cols);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto bits = static_cast<uint32_t>(i * 2654435761u);
    const uint32_t exponent = i / cols == 3 ? 7 : 120 + (bits >> 26 & 7);
    x[i] = std::bit_cast<float>((bits & 0x807FFFFFu) | (i / cols == 5 ? 0 : exponent << 23));
  }
  return x;
}

// Everything that the interface computes from it: codes, scales, decoded values, products, transforms.
std::vector<uint8_t> all_results(const std::vector<float>& x) {
  std::vector<uint8_t> all;
  const auto add = [&](const void* data, size_t bytes) {
    all.insert(all.end(), static_cast<const uint8_t*>(data), static_cast<const uint8_t*>(data) + bytes);
  };
  for (const char* spec : {"mxfp4", "nvfp4", "nvfp4,rounding=stochastic", "mxfp4,scale=fp32,scale_rule=amax"}) {
    fp4sim_array_shape shape;
    REQUIRE(fp4sim_shape(spec, rows, cols, &shape) == 0);
    std::vector<uint8_t> codes(static_cast<size_t>(rows * shape.code_row_bytes));
    std::vector<uint8_t> scales(static_cast<size_t>(shape.scale_rows * shape.scale_cols * shape.scale_bytes));
    std::vector<float> tensor(static_cast<size_t>(shape.tensor_scales)), y(x.size()), c(rows * rows);
    REQUIRE(fp4sim_quantize(spec, x.data(), rows, cols, {1, 2, 3}, codes.data(), scales.data(), tensor.data()) == 0);
    REQUIRE(fp4sim_dequantize(spec, rows, cols, codes.data(), scales.data(), tensor.data(), y.data()) == 0);
    add(codes.data(), codes.size());
    add(scales.data(), scales.size());
    add(tensor.data(), tensor.size() * sizeof(float));
    add(y.data(), y.size() * sizeof(float));
    for (const char* accumulator : {"fp32_block", "k64_rz"}) {
      REQUIRE(fp4sim_gemm(spec, spec, accumulator, x.data(), x.data(), rows, rows, cols, {1, 2, 3}, c.data()) == 0);
      add(c.data(), c.size() * sizeof(float));
    }
  }
  std::vector<float> h(x.size());
  REQUIRE(fp4sim_hadamard(x.data(), rows, cols, 32, "per_step", "sqrt", {1, 2, 3}, h.data()) == 0);
  add(h.data(), h.size() * sizeof(float));
  return all;
}

}  // namespace

TEST_CASE("the host's rounding mode and flush-to-zero change no bit, and are given back", "[quick]") {
  const std::vector<float> x = operand();
  const std::vector<uint8_t> expected = all_results(x);
  for (const fp4::test::HostFloats& host : fp4::test::host_environments()) {
    std::fenv_t before;
    std::fegetenv(&before);
    fp4::test::set_host_floats(host);
    const uint64_t control = fp4::test::float_control();
    const std::vector<uint8_t> got = all_results(x);
    const uint64_t after = fp4::test::float_control();
    std::fesetenv(&before);
    INFO(host.name);
    CHECK(got == expected);
    CHECK(after == control);
  }
}
