// Does the core agree, in every bit, with the independent oracle (tools/scripts/oracle.py: exact fractions, search over
// decoded values)? Reads the golden lines that the oracle wrote; the reference backend answers.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "fp4/random_words.h"
#include "fp4/rng.h"
#include "src/arith/spec_text.h"
#include "src/backends/embedding_rows.h"
#include "src/backends/sparse.h"

namespace {

using Fields = std::map<std::string, std::string>;

std::vector<uint32_t> hex_words(const std::string& text) {
  std::vector<uint32_t> out;
  if (text == "-" || text.empty()) return out;
  std::stringstream in(text);
  std::string word;
  while (std::getline(in, word, ',')) out.push_back(static_cast<uint32_t>(std::stoul(word, nullptr, 16)));
  return out;
}

std::vector<float> floats(const std::string& text) {
  std::vector<float> out;
  for (const uint32_t w : hex_words(text)) out.push_back(fp4::float_of(w));
  return out;
}

std::vector<uint32_t> bits(const std::vector<float>& values) {
  std::vector<uint32_t> out;
  for (const float v : values) out.push_back(fp4::bits_of(v));
  return out;
}

int64_t integer(const Fields& f, const char* key) { return std::stoll(f.at(key)); }

fp4::RandomPlace place_of(const Fields& f) {
  return {std::stoull(f.at("seed")), static_cast<uint32_t>(integer(f, "stream")),
          static_cast<uint32_t>(integer(f, "step"))};
}

fp4::HadamardSpec hadamard_of(const Fields& f, const char* size_key) {
  fp4::HadamardSpec h;
  fp4::set_hadamard(h, {{"size", integer(f, size_key)}, {"signs", f.at("signs")}, {"normalise", f.at("normalise")}},
                    "golden");
  if (f.contains("output")) fp4::set_hadamard(h, {{"output", f.at("output")}}, "golden");
  return h;
}

// Compares and reports the first difference of a case; at most 20 cases are printed.
class Judge {
 public:
  void compare(const std::string& line, const char* what, const std::vector<uint32_t>& got,
               const std::vector<uint32_t>& expected) {
    ++compared_;
    if (got == expected) return;
    if (++failures_ > 20) return;
    size_t at = 0;
    while (at < got.size() && at < expected.size() && got[at] == expected[at]) ++at;
    const auto hex = [&](const std::vector<uint32_t>& v) {
      std::ostringstream out;
      if (at < v.size())
        out << std::hex << v[at];
      else
        out << "end of " << std::dec << v.size();
      return out.str();
    };
    WARN(what << " differ first at " << at << ": expected " << hex(expected) << ", got " << hex(got) << " in\n  "
              << line.substr(0, 700));
  }
  void finish() {
    INFO(failures_ << " of " << compared_ << " arrays differ");
    CHECK(compared_ > 0);
    CHECK(failures_ == 0);
  }

 private:
  int compared_ = 0;
  int failures_ = 0;
};

// The lines of a verb in its file, then those in the files of younger words.
template <class F>
void for_each_line(const char* path, const char* verb, F&& f) {
  constexpr const char* younger[] = {"techniques", "peers",  "factors", "kernels",
                                     "grids",      "orders", "streams", "integers"};
  std::vector<std::string> lines;
  const auto read = [&lines](const std::string& file) {
    INFO(file);
    std::ifstream in(file);
    REQUIRE(in);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  };
  read(path);
  for (const char* name : younger) read(std::string("tests/golden/") + name + ".txt");
  Judge judge;
  for (const std::string& line : lines) {
    std::stringstream words(line);
    std::string word;
    words >> word;
    if (word != verb) continue;
    Fields fields;
    while (words >> word) {
      const auto equals = word.find('=');
      // a spec contains further '=': its key is the first word only
      fields[word.substr(0, equals)] = word.substr(equals + 1);
    }
    f(line, fields, judge);
  }
  judge.finish();
}

fp4::Accumulator accumulator_of(const std::string& word) {
  if (word.find(':') == std::string::npos) return fp4::accumulator_from(word, "golden");
  fp4::Json described = fp4::Json::object();
  std::stringstream in(word);
  std::string field;
  while (std::getline(in, field, ';')) {
    const auto colon = field.find(':');
    const std::string value = field.substr(colon + 1);
    if (value.find_first_not_of("-0123456789") == std::string::npos) {
      described[field.substr(0, colon)] = std::stoi(value);
    } else if (value == "true") {
      described[field.substr(0, colon)] = true;
    } else if (value != "none") {
      described[field.substr(0, colon)] = value;
    }
  }
  return fp4::accumulator_from(described, "golden");
}

}  // namespace

TEST_CASE("every code of every small format has the oracle's value", "[quick]") {
  for_each_line("tests/golden/formats.txt", "format", [](const std::string& line, const Fields& f, Judge& judge) {
    const std::string name = f.at("name");
    const auto* element = fp4::find_row(fp4::element_table, name);
    const auto* scale = fp4::find_row(fp4::scale_table, name);
    REQUIRE((element != nullptr || scale != nullptr));
    const fp4::FloatFormat& format = element != nullptr ? element->format : scale->format;
    const auto code = static_cast<uint32_t>(std::stoul(f.at("code"), nullptr, 16));
    judge.compare(line, "values", {fp4::bits_of(fp4::decode(format, code))}, hex_words(f.at("value")));
  });
}

TEST_CASE("random draws equal the oracle's", "[quick]") {
  for_each_line("tests/golden/random.txt", "random", [](const std::string& line, const Fields& f, Judge& judge) {
    std::vector<uint32_t> draws;
    for (int64_t i = 0; i < integer(f, "count"); ++i) {
      draws.push_back(fp4::random_draw(place_of(f), static_cast<uint64_t>(integer(f, "first") + i),
                                       static_cast<int>(integer(f, "bits"))));
    }
    judge.compare(line, "draws", draws, hex_words(f.at("draws")));
  });
}

TEST_CASE("draws packed for an instruction equal the oracle's", "[quick]") {
  for_each_line("tests/golden/packings.txt", "packing", [](const std::string& line, const Fields& f, Judge& judge) {
    const auto* packing = fp4::find_row(fp4::random_packing_table, f.at("name"));
    REQUIRE(packing != nullptr);
    std::vector<uint32_t> draws;
    for (int64_t i = 0; i < integer(f, "count"); ++i)
      draws.push_back(
          fp4::packed_draw(packing->id, place_of(f), static_cast<uint64_t>(integer(f, "first") + i), packing->bits));
    judge.compare(line, "draws", draws, hex_words(f.at("draws")));
  });
}

// Words of a B200: each element's 16 bits of rbits 0x12345678, lowest element first (mlc-ai/TIRx-harness).
TEST_CASE("cvt.rs takes the bits that a B200 takes", "[quick]") {
  const auto of = [](fp4::RandomPacking packing) {
    std::vector<uint32_t> bits;
    for (uint32_t i = 0; i < 4; ++i) bits.push_back(fp4::bits_in_word(packing, 0x12345678u, i));
    return bits;
  };
  const std::vector<uint32_t> f8 = {0x5678, 0x1e6a, 0x1234, 0x2c48};
  CHECK(of(fp4::RandomPacking::ptx_e2m1x4) == std::vector<uint32_t>{0x3478, 0x1e2c, 0x1256, 0x6a48});
  CHECK(of(fp4::RandomPacking::ptx_f8x4) == f8);
  CHECK(of(fp4::RandomPacking::ptx_f6x4) == f8);
  CHECK(of(fp4::RandomPacking::ptx_f8x4_unreversed) == std::vector<uint32_t>{0x5678, 0x5678, 0x1234, 0x1234});
}

// The adder as ROCm's header describes it: 22 random bits on the fraction's bits below the one that is kept, a
// subnormal shifted (and cut) first; the carry goes on into the exponent.
TEST_CASE("AMD's conversion to E2M1 is the truncated rule with its own draws", "[quick]") {
  const fp4::RandomPlace place = {11, 384, 2};
  int up = 0;
  for (uint32_t i = 0; i < 200000; ++i) {
    const uint32_t word = fp4::random_draw(place, i, 32), other = fp4::random_draw(place, i + 1000000, 32);
    const uint32_t exponent = 118 + other % 12;  // 2^-9 to 2^2
    const uint32_t fraction = (i % 3 == 0 ? other >> 9 & 0x7FFC00 : other >> 9);
    const float u = fp4::float_of(exponent << 23 | fraction);
    const uint32_t random = word >> 10;
    uint32_t code = 0;
    if (exponent >= 127) {
      code = (exponent - 126) * 2 + ((fraction + random) >> 22);
    } else {
      code = (((1u << 23 | fraction) >> (127 - exponent)) + random) >> 22;
    }
    code = std::min(code, 7u);
    const uint32_t draw = fp4::bits_in_word(fp4::RandomPacking::amd_fp4_f32, word, i % 2);
    const uint32_t ours = fp4::encode(fp4::format_of(fp4::Element::e2m1), fp4::exact_magnitude(u), false,
                                      {fp4::Rounding::stochastic_truncated, 32, draw});
    if (ours != code) {
      CAPTURE(u, word);
      REQUIRE(ours == code);
    }
    up += ours != fp4::encode(fp4::format_of(fp4::Element::e2m1), fp4::exact_magnitude(u), false,
                              {fp4::Rounding::toward_zero, 32, 0});
  }
  CHECK(up > 20000);
}

TEST_CASE("Hadamard transforms equal the oracle's", "[quick]") {
  for_each_line("tests/golden/hadamard.txt", "hadamard", [](const std::string& line, const Fields& f, Judge& judge) {
    const fp4::HadamardSpec h = hadamard_of(f, "size");
    const auto x = floats(f.at("x"));
    const int64_t rows = integer(f, "rows");
    const int64_t cols = integer(f, "cols");
    std::vector<float> y(static_cast<size_t>(rows * fp4::hadamard_padded(h, cols)));
    fp4::reference_backend().hadamard(fp4::view_of(x.data(), rows, cols), h, place_of(f).hadamard_signs(),
                                      integer(f, "inverse") != 0, y.data(), 1);
    judge.compare(line, "outputs", bits(y), hex_words(f.at("y")));
  });
}

TEST_CASE("codes, scales, tensor scales and decoded values equal the oracle's", "[quick]") {
  for_each_line("tests/golden/quantize.txt", "quantize", [](const std::string& line, const Fields& f, Judge& judge) {
    const auto x = floats(f.at("x"));
    fp4::QuantizeCall call;
    call.spec = fp4::quant_spec_from_words(f.at("spec"), "golden");
    call.x = fp4::view_of(x.data(), integer(f, "rows"), integer(f, "cols"));
    call.place = place_of(f);
    fp4::Quantized q;
    fp4::Dispatcher("reference").quantize(call, q);
    std::vector<uint32_t> codes;
    for (int64_t r = 0; r < q.rows; ++r) {
      for (int64_t k = 0; k < q.geometry.padded_cols; ++k) codes.push_back(q.code(r, k));
    }
    std::vector<float> decoded(x.size());
    fp4::reference_backend().dequantize(q, decoded.data(), 1);
    judge.compare(line, "codes", codes, hex_words(f.at("codes")));
    const std::vector<uint32_t> byte_scales(q.scales.begin(), q.scales.end());
    judge.compare(line, "scales", fp4::is_real(call.spec.scale) ? bits(q.real_scales) : byte_scales,
                  hex_words(f.at("scales")));
    judge.compare(line, "tensor scales", bits(q.tensor_scale), hex_words(f.at("tensor_scale")));
    judge.compare(line, "decoded values", bits(decoded), hex_words(f.at("decoded")));
  });
}

TEST_CASE("products equal the oracle's under every accumulator", "[quick]") {
  for_each_line("tests/golden/gemm.txt", "gemm", [](const std::string& line, const Fields& f, Judge& judge) {
    const auto a = floats(f.at("a"));
    const auto b = floats(f.at("b"));
    const int64_t k = integer(f, "k");
    std::vector<float> c(static_cast<size_t>(integer(f, "m") * integer(f, "n")));
    fp4::MultiplyCall call;
    call.a.x = fp4::view_of(a.data(), integer(f, "m"), k);
    call.b.x = fp4::view_of(b.data(), integer(f, "n"), k);
    call.a.spec = fp4::quant_spec_from_words(f.at("spec"), "golden");
    call.b.spec = fp4::quant_spec_from_words(f.at("spec_b"), "golden");
    call.a.hadamard = call.b.hadamard = hadamard_of(f, "hadamard");
    call.a.place = place_of(f);
    call.b.place = place_of(f).second_operand();
    call.options = {accumulator_of(f.at("accumulator")), call.a.hadamard.product_divisor(), 1};
    if (f.contains("factor")) call.options.factor = fp4::find_row(fp4::product_factor_table, f.at("factor"))->id;
    call.c = c.data();
    call.c_stride = integer(f, "n");
    fp4::Dispatcher("reference").multiply(call);
    judge.compare(line, "outputs", bits(c), hex_words(f.at("c")));
  });
}

TEST_CASE("rows and bags of embedding tables equal the oracle's", "[quick]") {
  for_each_line("tests/golden/embedding.txt", "bag", [](const std::string& line, const Fields& f, Judge& judge) {
    const auto* format = fp4::find_row(fp4::row_format_table, f.at("format"));
    const auto* order = fp4::find_row(fp4::bag_order_table, f.at("order"));
    const auto* rounding = fp4::find_row(fp4::rounding_table, f.at("rounding"));
    REQUIRE((format != nullptr && order != nullptr && rounding != nullptr));
    const int64_t cols = integer(f, "cols");
    const auto x = floats(f.at("x"));
    const fp4::Dispatcher backend("reference");
    fp4::RowTable table;
    fp4::encode_rows(format->id, fp4::view_of(x.data(), integer(f, "rows"), cols), {rounding->id, 16, place_of(f)},
                     backend, table);
    std::vector<float> decoded(x.size()), sum(static_cast<size_t>(cols)), carried;
    fp4::decode_rows(table, backend, decoded.data());
    const auto ids = hex_words(f.at("ids"));
    const std::vector<int32_t> rows(ids.begin(), ids.end());
    const int32_t first[] = {0, static_cast<int32_t>(rows.size())};
    fp4::embedding_bag(order->id, table, {rows.data(), first, 1}, backend, sum.data());
    for (const fp4::IntegerRow& row : table.integer) carried.insert(carried.end(), {row.scale, row.bias});
    judge.compare(line, "codes", {table.codes.begin(), table.codes.end()}, hex_words(f.at("codes")));
    judge.compare(line, "scales and biases", bits(carried), hex_words(f.at("carried")));
    judge.compare(line, "decoded values", bits(decoded), hex_words(f.at("decoded")));
    judge.compare(line, "sums", bits(sum), hex_words(f.at("sum")));
    if (order->id == fp4::BagOrder::fused && fp4::is_integer_row(format->id)) return;
    fp4::bag_by_reference(order->id, decoded.data(), cols, rows.data(), first[1], sum.data());
    judge.compare(line, "sums of the reference", bits(sum), hex_words(f.at("sum")));
  });
}

TEST_CASE("masks of sparse rows equal the oracle's", "[quick]") {
  for_each_line("tests/golden/masks.txt", "mask", [](const std::string& line, const Fields& f, Judge& judge) {
    const auto* sparsity = fp4::find_row(fp4::sparsity_table, f.at("sparse"));
    REQUIRE(sparsity != nullptr);
    const auto x = floats(f.at("x"));
    std::vector<int32_t> kept(x.size() / 2 + 2);
    kept.resize(
        static_cast<size_t>(fp4::largest_of_row(sparsity->id, x.data(), static_cast<int64_t>(x.size()), kept.data())));
    judge.compare(line, "columns", {kept.begin(), kept.end()}, hex_words(f.at("kept")));
  });
}
