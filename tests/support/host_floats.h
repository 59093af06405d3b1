// Floating-point environments that a host program may have set: four rounding modes, each with and without
// flush-to-zero (MXCSR bits 15 FTZ and 6 DAZ on x86, FPCR bit 24 FZ on Arm; elsewhere the rounding modes alone).
#pragma once

#include <cfenv>
#include <cstdint>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace fp4::test {

struct HostFloats {
  std::string name;
  int rounding;
  bool flushes;
};

inline std::vector<HostFloats> host_environments() {
  std::vector<HostFloats> all;
  for (const bool flushes : {false, true})
    for (const auto& [name, mode] : {std::pair{"nearest", FE_TONEAREST}, std::pair{"upward", FE_UPWARD},
                                     std::pair{"downward", FE_DOWNWARD}, std::pair{"toward zero", FE_TOWARDZERO}})
      all.push_back({std::string(name) + (flushes ? ", FTZ and DAZ" : ""), mode, flushes});
  return all;
}

// The control bits that decide results, without the sticky flags.
inline uint64_t float_control() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3Fu;
#elif defined(__aarch64__)
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return control;
#else
  return static_cast<uint64_t>(std::fegetround());
#endif
}

inline void set_host_floats(const HostFloats& floats) {
  std::fesetround(floats.rounding);
  if (!floats.flushes) return;
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040u);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" ::"r"(float_control() | uint64_t{1} << 24));
#endif
}

}  // namespace fp4::test
