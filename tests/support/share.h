// Long loops of cases run in part where they would take minutes: tools/test.sh sets the environment variable
// FP4_TEST_SHARE to 12 for its sanitizer stage, and a drawn twelfth of the cases is compared; to 3 for two programs of
// its stage `test`. Absent, all are.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace fp4::test {

// One case in this many runs.
inline uint32_t share() {
  static const uint32_t value = [] {
    const char* text = std::getenv("FP4_TEST_SHARE");
    const long number = text != nullptr ? std::strtol(text, nullptr, 10) : 1;
    return number > 1 ? static_cast<uint32_t>(number) : 1u;
  }();
  return value;
}

// Whether the next case runs. Drawn, so that no period of nested loops is left out; the same in every run.
inline bool next_case_runs() {
  static uint64_t drawn = 0;
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;  // MMIX's generator (Knuth, TAOCP 3.3.4)
  return share() == 1 || (drawn >> 33) % share() == 0;
}

}  // namespace fp4::test
