// Rows and bags of embedding tables beside what one can work out by hand; the oracle's lines are in test_oracle.cpp.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "fp4/rng.h"
#include "src/backends/embedding_rows.h"

using namespace fp4;

namespace {

std::vector<uint32_t> bits(const std::vector<float>& values) {
  std::vector<uint32_t> out;
  for (const float v : values) out.push_back(bits_of(v));
  return out;
}

}  // namespace

TEST_CASE("a row has the bytes that its format says", "[quick]") {
  // 64 numbers: 4 and 2 bytes each; 8 bits and two floats; 4 bits and two halves; 4 bits and 2 scales of 32; 4 scales
  // of 16 and a float; 4 scales of 16.
  CHECK(row_bytes(RowFormat::fp32, 64) == 256);
  CHECK(row_bytes(RowFormat::bf16, 64) == 128);
  CHECK(row_bytes(RowFormat::int8, 64) == 64 + 8);
  CHECK(row_bytes(RowFormat::int4, 64) == 32 + 4);
  CHECK(row_bytes(RowFormat::mxfp4, 64) == 32 + 2);
  CHECK(row_bytes(RowFormat::nvfp4, 64) == 32 + 4 + 4);
  CHECK(row_bytes(RowFormat::ue5m3, 64) == 32 + 4);
  CHECK(row_bytes(RowFormat::mxfp4, 33) == 32 + 2);  // the second block is padded
}

TEST_CASE("integer rows are FBGEMM's", "[quick]") {
  const Dispatcher backend("reference");
  RowTable table;
  // 4 bits: bias -1, scale (2.75 + 1)/15 = .25, code of .3: 5.2; of -.875: .5, to even 0
  const std::vector<float> x = {-1, 0.3f, 2.75f, -0.875f};
  encode_rows(RowFormat::int4, view_of(x.data(), 1, 4), {}, backend, table);
  CHECK(table.integer[0].scale == 0.25f);
  CHECK(table.integer[0].bias == -1.0f);
  CHECK(table.codes == std::vector<uint8_t>{0, 5, 15, 0});
  // all alike: 8 bits have scale 0, 4 bits scale 1
  const std::vector<float> same(4, 1.5f);
  std::vector<float> back(4);
  for (const RowFormat format : {RowFormat::int8, RowFormat::int4}) {
    encode_rows(format, view_of(same.data(), 1, 4), {}, backend, table);
    CHECK(table.integer[0].scale == (format == RowFormat::int8 ? 0.0f : 1.0f));
    decode_rows(table, backend, back.data());
    CHECK(back == same);
  }
}

TEST_CASE("stochastic updates of a row are right in the mean", "[quick]") {
  // 4 bits between 0 and 15: 6.25 becomes 7 in a quarter of 20,000 draws, whose SD is .003.
  std::vector<float> x(20002, 6.25f);
  x.front() = 0, x.back() = 15;
  const Dispatcher backend("reference");
  RowTable table;
  encode_rows(RowFormat::int4, view_of(x.data(), 1, static_cast<int64_t>(x.size())),
              {Rounding::stochastic, 16, {1, 2, 3}}, backend, table);
  const auto up = std::count(table.codes.begin(), table.codes.end(), 7);
  CHECK(up + std::count(table.codes.begin(), table.codes.end(), 6) == 20000);
  CHECK(std::fabs(static_cast<double>(up) / 20000 - 0.25) < 0.015);
}

TEST_CASE("an exact bag knows no order, a sequential one does", "[quick]") {
  // 2^24 + 1 + 1 - 2^24: one by one the ones are lost.
  const std::vector<float> rows = {0x1p24f, 1, 1, -0x1p24f};
  const int32_t first[] = {0, 4};
  std::vector<int32_t> ids = {0, 1, 2, 3};
  float sum = 0;
  embedding_bag(BagOrder::sequential, rows.data(), 1, {ids.data(), first, 1}, &sum);
  CHECK(sum == 0);
  do {
    embedding_bag(BagOrder::exact, rows.data(), 1, {ids.data(), first, 1}, &sum);
    CHECK(sum == 2);
  } while (std::next_permutation(ids.begin(), ids.end()));
}

TEST_CASE("the fast bag equals the reference or declines", "[quick]") {
  const RandomPlace place = {9, 4, 0};
  for (const BagOrder order : {BagOrder::sequential, BagOrder::exact}) {
    int answered = 0, declined = 0;
    for (uint32_t trial = 0; trial < 400; ++trial) {
      const int64_t cols = 1 + random_draw(place, trial, 8) % 70, count = 1 + random_draw(place, trial + 1000, 8) % 20;
      // Binades within 2^spread of a centre anywhere, some numbers 0; in every eighth trial one that is not finite.
      const int centre = static_cast<int>(random_draw(place, trial + 2000, 8)), spread = 1 << (trial % 7);
      std::vector<float> rows(static_cast<size_t>(8 * cols));
      for (size_t i = 0; i < rows.size(); ++i) {
        const uint32_t draw = random_draw({9, 5, trial}, i, 32);
        const int field = std::clamp(centre + static_cast<int>(draw % static_cast<uint32_t>(spread)), 0, 254);
        rows[i] = draw % 11 == 0 ? 0.0f : float_of((draw & 0x807FFFFFu) | static_cast<uint32_t>(field) << 23);
      }
      if (trial % 8 == 7) rows[random_draw(place, trial + 3000, 32) % rows.size()] = trial % 16 == 7 ? INFINITY : NAN;
      std::vector<int32_t> ids;
      for (int64_t i = 0; i < count; ++i)
        ids.push_back(static_cast<int32_t>(random_draw({9, 6, trial}, static_cast<uint64_t>(i), 8) % 8));
      std::vector<float> fast(static_cast<size_t>(cols)), wanted(fast);
      bag_by_reference(order, rows.data(), cols, ids.data(), count, wanted.data());
      if (!bag_by_columns(order, rows.data(), cols, ids.data(), count, fast.data())) {
        ++declined;
        continue;
      }
      ++answered;
      INFO("trial " << trial << " order " << bag_order_table[static_cast<size_t>(order)].name);
      REQUIRE(bits(fast) == bits(wanted));
    }
    CHECK(answered > 150);
    CHECK((declined > 0) == (order == BagOrder::exact));
  }
}
