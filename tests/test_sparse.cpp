// Sparse products: what the mask leaves out is absent, in blocks, groups and dots alike.
#include <catch2/catch.hpp>

#include "src/arith/spec_text.h"
#include "src/backends/sparse.h"

using namespace fp4;
using Catch::Contains;

namespace {

// Two of every four elements, or two pairs of four, of a row; by draws.
std::vector<float> drawn_mask(int64_t rows, int64_t cols, int step) {
  std::vector<float> mask(static_cast<size_t>(rows * cols), 0.0f);
  uint64_t at = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < cols; k += 4 * step) {
      const auto first = static_cast<int>(random_draw({3, 0, 0}, at, 32) % 4);
      const int second = (first + 1 + static_cast<int>(random_draw({4, 0, 0}, at++, 32) % 3)) % 4;
      for (const int i : {first, second})
        for (int j = 0; j < step; ++j) mask[static_cast<size_t>(r * cols + k + i * step + j)] = 1.0f;
    }
  return mask;
}

std::vector<float> drawn(int64_t count, uint64_t seed) {
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t w = random_draw({seed, 0, 0}, i, 32);
    x[i] = float_of((w & 0x807FFFFFu) | (112u + (w >> 23 & 31u)) << 23);
  }
  return x;
}

}  // namespace

TEST_CASE("a sparse product is the dense one of what is kept", "[quick]") {
  for (const char* words : {"nvfp4,block=32", "mxfp4", "mxfp8", "bf16"}) {
    for (const int step : {1, 2}) {
      const int64_t m = 3, n = 5, k = 256;
      const QuantSpec spec = quant_spec_from_words(words);
      std::vector<float> x = drawn(m * k, 1), y = drawn(n * k, 2);
      const std::vector<float> given = drawn_mask(m, k, step);
      for (size_t i = 0; i < x.size(); ++i) x[i] = given[i] != 0.0f ? x[i] : 0.0f;
      const Dispatcher backend("auto");
      Quantized a, b;
      backend.quantize({.x = view_of(x.data(), m, k), .spec = spec}, a);
      backend.quantize({.x = view_of(y.data(), n, k), .spec = spec}, b);
      const SparseMask mask = sparse_mask("test", given, k, m, k);
      for (const AccumulatorInfo& row : accumulator_table) {
        if (!takes(row.row, spec.has_scale(), format_of(spec.element))) continue;
        INFO(words << " " << row.name << " " << step);
        const GemmOptions options = {.accumulator = row.row};
        std::vector<float> got(static_cast<size_t>(m * n)), dense(got.size());
        sparse_gemm(backend, a, b, mask, options, got.data(), n);
        backend.gemm(a, b, options, dense.data(), n);
        // Zeros of A add nothing, so sums of one rounding are the dense ones; others have groups of twice the K.
        if (row.name == std::string_view("exact")) CHECK(got == dense);
        // And each output is that of numbers which lie side by side.
        for (int64_t r = 0; r < m; ++r) {
          Quantized left, right;
          std::vector<float> u, v;
          QuantSpec half = spec;
          if (spec.has_scale()) half.block.size /= 2;
          for (int64_t i = 0; i < k / 2; ++i) u.push_back(x[static_cast<size_t>(r * k + mask.row(r)[i])]);
          for (int64_t j = 0; j < n; ++j)
            for (int64_t i = 0; i < k / 2; ++i) v.push_back(y[static_cast<size_t>(j * k + mask.row(r)[i])]);
          backend.quantize({.x = view_of(u.data(), 1, k / 2), .spec = half}, left);
          backend.quantize({.x = view_of(v.data(), n, k / 2), .spec = half}, right);
          // under the scales of the whole tensors
          for (int64_t i = 0; i < k / 2; ++i) {
            if (!spec.has_scale()) break;
            left.scales[static_cast<size_t>(left.scale_index(0, i))] =
                a.scales[static_cast<size_t>(a.scale_index(r, mask.row(r)[i]))];
            for (int64_t j = 0; j < n; ++j)
              right.scales[static_cast<size_t>(right.scale_index(j, i))] =
                  b.scales[static_cast<size_t>(b.scale_index(j, mask.row(r)[i]))];
          }
          left.codes.assign(left.codes.size(), 0);
          right.codes.assign(right.codes.size(), 0);
          for (int64_t i = 0; i < k / 2; ++i) {
            left.set_code(0, i, a.code(r, mask.row(r)[i]));
            for (int64_t j = 0; j < n; ++j) right.set_code(j, i, b.code(j, mask.row(r)[i]));
          }
          left.tensor_scale = a.tensor_scale;
          right.tensor_scale = b.tensor_scale;
          std::vector<float> one(static_cast<size_t>(n));
          Dispatcher("reference").gemm(left, right, options, one.data(), n);
          for (int64_t j = 0; j < n; ++j)
            CHECK(bits_of(one[static_cast<size_t>(j)]) == bits_of(got[static_cast<size_t>(r * n + j)]));
        }
      }
    }
  }
}

// Four products a dot, 64 a group: 2^24 and 1 in one group of the sparse sum, which is 128 of K, and in two of a dense
// one.
TEST_CASE("a group of a sparse product is twice as long in K", "[quick]") {
  const int64_t k = 256;
  Quantized a, b;
  const QuantSpec spec = quant_spec_from_words("mxfp4");
  std::vector<float> x(k, 0.0f), y(k, 0.0f), given(k, 0.0f);
  for (int64_t i = 0; i < k; i += 2) given[static_cast<size_t>(i)] = 1.0f;
  x[0] = 0x1p12f, y[0] = 0x1p12f;  // 2^24
  x[64] = 1.5f, y[64] = 1.0f;      // dense: the second group of 64; sparse: the first
  x[96] = 1.5f, y[96] = 1.0f;
  const Dispatcher backend("auto");
  backend.quantize({.x = view_of(x.data(), 1, k), .spec = spec}, a);
  backend.quantize({.x = view_of(y.data(), 1, k), .spec = spec}, b);
  const GemmOptions options = {.accumulator = find_row(accumulator_table, std::string_view("k64_rz"))->row};
  float sparse = 0, dense = 0;
  sparse_gemm(backend, a, b, sparse_mask("test", given, k, 1, k), options, &sparse, 1);
  backend.gemm(a, b, options, &dense, 1);
  CHECK(sparse == 16777220.0f);  // 2^24 + 3 in one group, rounded once to nearest even
  CHECK(dense == 16777218.0f);   // 3 on top of 2^24, toward zero
}

TEST_CASE("the largest are kept, of pairs their sums, and metadata says which", "[quick]") {
  std::vector<float> x = {1, -3, 2, -3, 0, 0, 0, 5, -1, 1, 1, -1, 4, 3, -6, 0};
  const SparseMask two = largest_kept("x", Sparsity::two_of_four, x, 1, 16);
  CHECK(two.kept == std::vector<int32_t>{1, 3, 4, 7, 8, 9, 12, 14});
  CHECK(metadata_of(two, Sparsity::two_of_four) ==
        std::vector<uint8_t>{1 | 3 << 2, 0 | 3 << 2, 0 | 1 << 2, 0 | 2 << 2});
  // |1|+|3| = 4, 2+3 = 5, 0, 5: the pairs 1 and 3; then 2, 2, 7, 6
  const SparseMask four = largest_kept("x", Sparsity::four_of_eight, x, 1, 16);
  CHECK(four.kept == std::vector<int32_t>{2, 3, 6, 7, 12, 13, 14, 15});
  CHECK(metadata_of(four, Sparsity::four_of_eight) == std::vector<uint8_t>{1 | 3 << 2, 2 | 3 << 2});
  clear_others(two, x);
  CHECK(x == std::vector<float>{0, -3, 0, -3, 0, 0, 0, 5, -1, 1, 0, 0, 4, 0, -6, 0});
  CHECK(largest_kept("x", Sparsity::two_of_four, x, 1, 16).kept == two.kept);  // of what is left, the same
  CHECK(largest_kept("x", Sparsity::two_of_four, x, 2, 8).row(1)[0] == 0);     // columns, not places
  for (const Sparsity s : {Sparsity::two_of_four, Sparsity::four_of_eight}) {
    const std::vector<float> drawn_x = drawn(5 * 64, 9);
    const SparseMask mask = largest_kept("x", s, drawn_x, 5, 64);
    const std::vector<uint8_t> words = metadata_of(mask, s);
    const std::vector<float> metadata(words.begin(), words.end());
    CHECK(sparse_mask("m", metadata, static_cast<int64_t>(words.size()) / 5, 5, 64).kept == mask.kept);
  }
  CHECK_THROWS_WITH(largest_kept("x", Sparsity::two_of_four, x, 1, 12), Contains("multiple of 8"));
}

TEST_CASE("metadata and masks say the same, and what is not sparse is refused by place", "[quick]") {
  std::vector<float> given(16, 0.0f);
  for (const size_t i : {0u, 3u, 5u, 6u, 8u, 9u, 14u, 15u}) given[i] = 1.0f;
  const SparseMask mask = sparse_mask("m", given, 16, 1, 16);
  CHECK(mask.kept == std::vector<int32_t>{0, 3, 5, 6, 8, 9, 14, 15});
  CHECK(sparse_mask("m", {0 | 3 << 2, 1 | 2 << 2, 0 | 1 << 2, 2 | 3 << 2}, 4, 1, 16).kept == mask.kept);
  CHECK(sparse_mask("m", {0 | 2 << 2, 1 | 3 << 2}, 2, 1, 16).kept == std::vector<int32_t>{0, 1, 4, 5, 10, 11, 14, 15});
  given[1] = 1.0f;
  CHECK_THROWS_WITH(sparse_mask("m", given, 16, 1, 16), Contains("row 0 keeps neither"));
  CHECK_THROWS_WITH(sparse_mask("m", {1 | 1 << 2, 0, 0, 0}, 4, 1, 16), Contains("row 0, column 0"));
  CHECK_THROWS_WITH(sparse_mask("m", given, 16, 1, 20), Contains("multiple of 8"));
  CHECK_THROWS_WITH(sparse_mask("m", {1, 2, 3}, 3, 1, 16), Contains("4 for indices of elements"));
}
