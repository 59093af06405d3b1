// The backends that a test compares with the reference.
#pragma once

#include <vector>

#include "src/backends/backends.h"

namespace fp4::test {

// All fast ones of this machine; with FP4_TEST_BACKEND=NAME in the environment only that one (ctest -L gpu). Absent
// ones are named, and when none is left "[test skipped]" tells ctest so.
std::vector<const Backend*> backends_under_test();

}  // namespace fp4::test
