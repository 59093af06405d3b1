// Decides: in which floating-point environment this project computes: the default one of IEEE 754 and C (nearest even,
// subnormal numbers kept, no traps), whatever the host program or one of its libraries has set. A library linked with
// -ffast-math sets FTZ and DAZ for the whole process, and one bit of MXCSR (x86) or FPCR (Arm) changes every digest.
//
// The program sets it once, before its first thread (a thread inherits its creator's); the C library and the threads
// of parallel_for hold one of these for as long as they compute.
#pragma once

#include <cfenv>

namespace fp4 {

class DefaultFloatEnvironment {
 public:
  // FE_DFL_ENV clears FTZ and DAZ as well: glibc and musl load the whole control register.
  DefaultFloatEnvironment() {
    std::fegetenv(&host_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&host_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t host_;
};

}  // namespace fp4
