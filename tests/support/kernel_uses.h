// Which kernels drawn cases have reached.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string_view>

#include "src/cpu/use_counter.h"
#include "tests/support/backends_under_test.h"

namespace fp4::test {

// No row of a table of kernels took more `pieces` than it was offered; with `reaches_all` and the AVX-512 backend under
// test, which has every kernel, each took some.
template <class Table, class Counters>
void check_uses(const Table& table, const Counters& uses, const char* pieces, bool reaches_all) {
  const std::vector<const Backend*> backends = backends_under_test();
  const bool has_all = std::any_of(backends.begin(), backends.end(),
                                   [](const Backend* b) { return std::string_view(b->name()) == "avx512"; });
  const auto counts = uses.read();
  for (const auto& row : table) {
    const cpu::UseCount& count = counts[static_cast<size_t>(row.id)];
    INFO(row.name << ": offered " << count.offered << ' ' << pieces << ", took " << count.taken);
    CHECK(count.taken <= count.offered);
    if (has_all && reaches_all) CHECK(count.taken > 0);
  }
}

}  // namespace fp4::test
