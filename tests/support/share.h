// Long loops of cases run in part where they would take minutes: tools/test.sh sets the environment variable
// FP4_TEST_SHARE to 12 for its sanitizer stage, and a drawn twelfth of the cases is compared. Seven programs have more
// than need be compared each time (accidents, backends, backends_products, json_readers, race_tuned, recipes, rtl);
// FP4_TEST_SHARE_LARGE, 24 in stage `test` and 144 under sanitizers, is for them alone. Absent, all cases run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace fp4::test {

// One case in this many runs, by that variable.
inline uint32_t share_of(const char* variable) {
  const char* text = std::getenv(variable);
  const long number = text != nullptr ? std::strtol(text, nullptr, 10) : 1;
  return number > 1 ? static_cast<uint32_t>(number) : 1u;
}
inline uint32_t share() {
  static const uint32_t value = share_of("FP4_TEST_SHARE");
  return value;
}
inline uint32_t large_share() {
  static const uint32_t value = std::max(share(), share_of("FP4_TEST_SHARE_LARGE"));
  return value;
}

// Whether the next case runs. Drawn, so that no period of nested loops is left out; the same in every run.
inline bool next_case_runs(uint32_t one_in = share()) {
  static uint64_t drawn = 0;
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;  // MMIX's generator (Knuth, TAOCP 3.3.4)
  return one_in == 1 || (drawn >> 33) % one_in == 0;
}

}  // namespace fp4::test
