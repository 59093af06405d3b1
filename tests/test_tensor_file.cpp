// Tensor files: conversions over all 16-bit patterns, .npy in all its versions and orders, raw files, writing, and
// every way in which such a file can be wrong. Expected bytes are typed from numpy's format description.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "src/files/dtype.h"
#include "src/files/stored_array.h"
#include "src/files/tensor_reader.h"
#include "src/files/tensor_writer.h"
#include "tests/support/support.h"

using Catch::Contains;
using fp4::Dtype;
using fp4::Shape;
using fp4::test::TemporaryFolder;

namespace {

fp4::Bytes memory(const std::string& bytes, const std::string& name = "x.npy") {
  return fp4::open_memory(name, {bytes.begin(), bytes.end()});
}

// A .npy with any dictionary text, padded as version `major` wants it.
std::string npy(const std::string& dictionary, const std::string& data, int major = 1) {
  const std::string text = dictionary + "\n";
  std::string file = std::string("\x93NUMPY") + static_cast<char>(major) + '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return file + text + data;
}

std::string dictionary(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

template <class Element>
std::string bytes_of(const std::vector<Element>& elements) {
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element)};
}

std::vector<float> rows_of(fp4::TensorReader& reader) {
  std::vector<float> values(static_cast<std::size_t>(reader.rows() * reader.cols()));
  reader.read_rows(0, reader.rows(), values.data());
  return values;
}

float as_float32(Dtype dtype, const void* element) {
  float value;
  fp4::to_float32(dtype, element, 1, &value);
  return value;
}

}  // namespace

TEST_CASE("all 65,536 float16 and bfloat16 widen exactly", "[quick]") {
  for (unsigned pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    // float16 by its definition: (-1)^s 2^(e-15) 1.m, subnormal 2^-14 0.m.
    const int exponent = pattern >> 10 & 31, mantissa = static_cast<int>(pattern & 1023);
    std::uint32_t expected = 0;
    if (exponent == 31) {
      expected = 0x7f800000u | static_cast<std::uint32_t>(mantissa) << 13;  // inf; NaN keeps its payload
    } else {
      const double value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      expected = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    }
    expected |= (pattern >> 15) << 31;
    REQUIRE(fp4::f16_to_f32_bits(bits) == expected);
    REQUIRE(std::bit_cast<std::uint32_t>(as_float32(Dtype::f16, &bits)) == expected);
    REQUIRE(std::bit_cast<std::uint32_t>(as_float32(Dtype::bf16, &bits)) == pattern << 16);
  }
}

TEST_CASE("float64 rounds to nearest even on and beside every kind of midpoint", "[quick]") {
  const float largest = std::numeric_limits<float>::max(), infinity = std::numeric_limits<float>::infinity();
  const auto rounded = [](double value) { return as_float32(Dtype::f64, &value); };
  std::uint32_t state = 1;
  for (int i = 0; i < 100000; ++i) {
    state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator, to vary the patterns
    // Every 16th pattern lies at a boundary of exponents or among the subnormals.
    const std::uint32_t magnitude = i % 16 != 0 ? state & 0x7fffffffu : (state & 0x7f800000u) + state % 3 - 1;
    const float low = std::bit_cast<float>(magnitude & 0x7fffffffu);
    if (!(low < largest)) continue;
    const float high = std::nextafter(low, infinity);
    const double middle = (static_cast<double>(low) + high) / 2;  // exact: one bit more than float32
    const float even = (std::bit_cast<std::uint32_t>(low) & 1) == 0 ? low : high;
    REQUIRE(rounded(low) == low);
    REQUIRE(rounded(middle) == even);
    REQUIRE(rounded(-middle) == -even);
    REQUIRE(rounded(std::nextafter(middle, 0.0)) == low);
    REQUIRE(rounded(std::nextafter(middle, std::numeric_limits<double>::infinity())) == high);
  }
  // 2^128 - 2^103 is halfway to the first power beyond the range.
  CHECK(rounded(0x1.ffffffp127) == infinity);
  CHECK(rounded(std::nextafter(0x1.ffffffp127, 0.0)) == largest);
  CHECK(rounded(0x1p-150) == 0.0f);
  CHECK(rounded(std::nextafter(0x1p-150, 1.0)) == 0x1p-149f);
  CHECK(std::signbit(rounded(-0.0)));
  CHECK(std::isnan(rounded(std::nan(""))));
}

TEST_CASE("the header is numpy's", "[quick]") {
  const std::string header = fp4::npy_header(Dtype::f32, {3, 4});
  CHECK(header.size() == 128);
  CHECK(header.substr(0, 10) == std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK_THAT(header.substr(10), Catch::StartsWith("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  "));
  CHECK(header.back() == '\n');
  CHECK_THAT(fp4::npy_header(Dtype::u8, {}), Contains("'|u1'") && Contains("'shape': ()"));
  CHECK_THAT(fp4::npy_header(Dtype::bf16, {5}), Contains("'<u2'") && Contains("(5,)"));
  CHECK_THROWS_WITH(fp4::npy_header(Dtype::f4_e2m1, {4}), Contains("unpacked"));
  CHECK(fp4::npy_header(Dtype::f32, Shape(64, 1)).size() % 64 == 0);
}

TEST_CASE("versions 1, 2 and 3, ranks 0 to 4, as matrices", "[quick]") {
  const std::vector<float> data = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const int major : {1, 2, 3}) {
    fp4::TensorReader reader(memory(npy(dictionary("<f4", "False", "(2, 4)"), bytes_of(data), major)));
    CHECK(reader.rows() == 2);
    CHECK(reader.cols() == 4);
    CHECK(rows_of(reader) == data);
    CHECK(reader.notes().empty());
    float row[4];
    reader.read_rows(1, 1, row);
    CHECK(row[0] == 5);
    CHECK_THROWS_WITH(reader.read_rows(1, 2, row), Contains("rows 1 to 3 of 2"));
  }
  const std::vector<std::pair<std::string, Shape>> ranks = {
      {"(8,)", {1, 8}}, {"(2, 2, 2)", {4, 2}}, {"(2,1,2,2)", {4, 2}}};
  for (const auto& [shape, matrix] : ranks) {
    fp4::TensorReader reader(memory(npy(dictionary("<f4", "False", shape), bytes_of(data))));
    CHECK(Shape{reader.rows(), reader.cols()} == matrix);
  }
  fp4::TensorReader scalar(memory(npy(dictionary("<f4", "False", "()"), bytes_of(std::vector<float>{7}))));
  CHECK(rows_of(scalar) == std::vector<float>{7});
  // Python 2 wrote long integers so; double quotes and other orders of keys are Python literals as well.
  fp4::TensorReader old(memory(npy("{\"shape\": (2L, 4L), \"fortran_order\": False, 'descr': '<f4'}", bytes_of(data))));
  CHECK(rows_of(old) == data);
  fp4::TensorReader empty(memory(npy(dictionary("<f4", "False", "(3, 0)"), "")));
  CHECK(rows_of(empty).empty());
}

TEST_CASE("big endian and float64 are converted and said so; integers are values or codes", "[quick]") {
  fp4::TensorReader big(memory(npy(dictionary(">f4", "False", "(1,)"), std::string("\x3f\x80\x00\x01", 4))));
  CHECK(rows_of(big)[0] == std::bit_cast<float>(0x3f800001u));
  REQUIRE(big.notes().size() == 1);
  CHECK_THAT(big.notes()[0], Contains("big endian"));
  fp4::TensorReader wide(memory(npy(dictionary(">f8", "False", "(1,)"), std::string("\x3f\xf0\0\0\0\0\0\0", 8))));
  CHECK(rows_of(wide)[0] == 1.0f);
  CHECK(wide.notes().size() == 2);
  CHECK_THAT(wide.notes()[1], Contains("float64 rounded to float32"));
  const std::vector<std::uint16_t> codes = {0x3f80, 0xffff};
  fp4::TensorReader integers(memory(npy(dictionary("<u2", "False", "(2,)"), bytes_of(codes))));
  CHECK(rows_of(integers) == std::vector<float>{16256, 65535});
  std::uint16_t raw[2];
  integers.read_raw(0, 1, raw);
  CHECK(raw[1] == 0xffff);
  fp4::TensorReader bfloat(memory(npy(dictionary("|V2", "False", "(2,)"), bytes_of(codes))),
                           {.uint16_is_bfloat16 = true});
  CHECK(bfloat.dtype() == Dtype::bf16);
  CHECK(rows_of(bfloat)[0] == 1.0f);
  CHECK_THAT(bfloat.notes().at(0), Contains("opaque type '|V2' read as bf16"));
  const std::vector<std::int64_t> large = {(1 << 24) + 1, -((1 << 24) + 3)};
  fp4::TensorReader rounded(memory(npy(dictionary("<i8", "False", "(2,)"), bytes_of(large))));
  CHECK(rows_of(rounded) == std::vector<float>{16777216, -16777220});
  CHECK_THAT(rounded.notes().at(0), Contains("rounded"));
}

TEST_CASE("opaque numpy types have no values until somebody says what they are", "[quick]") {
  const std::vector<std::uint16_t> halves = {0x3c00, 0xbc00};  // 1 and -1 in float16
  const std::string two = npy(dictionary("<V2", "False", "(2,)"), bytes_of(halves));
  const std::string one = npy(dictionary("|V1", "False", "(4,)"), bytes_of(halves));
  CHECK_THROWS_WITH(fp4::TensorReader(memory(two)), Contains("'<V2'") && Contains("--bf16") && Contains("--dtype f16"));
  CHECK_THROWS_WITH(fp4::TensorReader(memory(one)), Contains("'|V1'") && Contains("--dtype f8_e4m3") &&
                                                        Contains("--dtype f8_e8m0") && !Contains("--bf16"));
  CHECK_THROWS_WITH(fp4::TensorReader(memory(one), {.uint16_is_bfloat16 = true}), Contains("'|V1'"));
  CHECK_THROWS_WITH(fp4::TensorReader(memory(one), {.opaque_dtype = Dtype::bf16}), Contains("bf16 has another width"));
  fp4::TensorReader half(memory(two), {.opaque_dtype = Dtype::f16});
  CHECK(rows_of(half) == std::vector<float>{1, -1});
  fp4::TensorReader codes(memory(one), {.opaque_dtype = Dtype::f8_e4m3});
  CHECK(codes.dtype() == Dtype::f8_e4m3);
  unsigned char raw[4] = {};
  codes.read_raw(0, 1, raw);
  CHECK(raw[1] == 0x3c);
  // --dtype without --shape says nothing about a type that numpy knows.
  CHECK_THROWS_WITH(fp4::TensorReader(memory(npy(dictionary("<f4", "False", "(1,)"), bytes_of(halves))),
                                      {.opaque_dtype = Dtype::f8_e4m3}),
                    Contains("holds f32, --dtype says f8_e4m3"));
}

TEST_CASE("Fortran order and transposes by any rows equal the plain index arithmetic", "[quick]") {
  for (const Shape& shape :
       {Shape{5, 7}, Shape{2, 3, 4}, Shape{3, 1, 2, 5}, Shape{6}, Shape{1, 9}, Shape{2, 2, 3, 2, 2}}) {
    const std::uint64_t count = std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
    std::vector<std::uint16_t> stored(count);
    std::iota(stored.begin(), stored.end(), std::uint16_t{0});
    for (const bool fortran : {false, true}) {
      // matrix[r][c] by taking the multi-index apart.
      const std::uint64_t cols = shape.back(), rows = count / cols;
      std::vector<std::uint16_t> expected(count);
      for (std::uint64_t i = 0; i < count; ++i) {
        std::uint64_t rest = i, position = 0, step = 1;
        std::vector<std::uint64_t> index(shape.size());
        for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
        for (std::size_t axis = 0; axis < shape.size(); step *= shape[axis++]) position += index[axis] * step;
        expected[i] = stored[fortran ? position : i];
      }
      const fp4::Bytes file =
          memory(npy(dictionary("<u2", fortran ? "True" : "False", fp4::shape_text(shape)), bytes_of(stored)));
      fp4::TensorReader reader(file), transposed(file);
      transposed.transpose();
      CHECK(transposed.rows() == cols);
      const fp4::StoredArray array = fp4::parse_npy(file);
      for (const bool turned : {false, true}) {
        const std::uint64_t high = turned ? cols : rows, wide = turned ? rows : cols;
        for (std::uint64_t first = 0; first < high; ++first)
          for (std::uint64_t number = 1; first + number <= high; ++number) {
            std::vector<std::uint16_t> got(number * wide), gathered(number * wide);
            (turned ? transposed : reader).read_raw(first, number, got.data());
            fp4::gather_rows(array, fp4::file_axes(array, turned), wide, first, number,
                             reinterpret_cast<unsigned char*>(gathered.data()));
            for (std::uint64_t r = 0; r < number; ++r)
              for (std::uint64_t c = 0; c < wide; ++c) {
                const std::uint16_t want = turned ? expected[c * cols + first + r] : expected[(first + r) * cols + c];
                REQUIRE(got[r * wide + c] == want);
                REQUIRE(gathered[r * wide + c] == want);
              }
          }
      }
      transposed.transpose();
      std::vector<std::uint16_t> back(count);
      transposed.read_raw(0, rows, back.data());
      CHECK(back == expected);
    }
  }
}

TEST_CASE("panels larger than their budget are read in parts", "[quick]") {
  // 12,000 x 1,000 float32 in Fortran order: 48 MB, one and a half panels.
  const TemporaryFolder folder;
  const std::uint64_t rows = 12000, cols = 1000;
  std::string header = npy(dictionary("<f4", "True", "(12000, 1000)"), "");
  fp4::OutputFile file(folder / "f.npy");
  file.write(header);
  std::vector<float> column(rows);
  for (std::uint64_t c = 0; c < cols; ++c) {
    for (std::uint64_t r = 0; r < rows; ++r) column[r] = static_cast<float>(r * 1000 + c);
    file.write(column.data(), rows * sizeof(float));
  }
  file.commit();
  fp4::TensorReader reader(folder / "f.npy");
  std::vector<float> block(700 * cols);
  for (std::uint64_t first = 0; first < rows; first += 700) {
    const std::uint64_t number = std::min<std::uint64_t>(700, rows - first);
    reader.read_rows(first, number, block.data());
    for (std::uint64_t i = 0; i < number * cols; ++i) REQUIRE(block[i] == static_cast<float>(first * 1000 + i));
  }
}
