// Products of quantised operands on every backend against the reference.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/backends_under_test.h"
#include "tests/support/share.h"

namespace fp4::test {

inline void compare_products(const Quantized& a, const Quantized& b, const Accumulator& row, const std::string& what) {
  if (!next_case_runs()) return;
  const auto count = static_cast<size_t>(a.rows * b.rows);
  std::vector<float> expected;  // made when a backend takes the product: the core is slow
  GemmOptions options;
  options.accumulator = row;
  static const std::vector<const Backend*> backends = backends_under_test();
  for (const Backend* fast : backends) {
    if (!fast->supports_gemm(a.spec, b.spec, options)) continue;
    if (expected.empty()) {
      expected.assign(count, -7.0f);
      reference_backend().gemm(a, b, options, expected.data(), b.rows);
    }
    std::vector<float> got(count, -7.0f);
    fast->gemm(a, b, options, got.data(), b.rows);
    size_t at = 0;
    while (at + 1 < count && bits_of(got[at]) == bits_of(expected[at])) ++at;
    INFO(fast->name() << " " << what << " kind " << static_cast<int>(row.kind) << " at " << at << ": " << got[at]
                      << " instead of " << expected[at] << ", group " << row.group << " inner " << row.inner << " bits "
                      << row.fraction_bits);
    CHECK(std::memcmp(got.data(), expected.data(), count * sizeof(float)) == 0);
  }
}

}  // namespace fp4::test
