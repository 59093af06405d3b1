// The canary of -ffp-contract=off: a*b + c must round twice. With a = b = 1 + 2^-12 and c = -(1 + 2^-11) the exact
// product 1 + 2^-11 + 2^-24 lies half way between two floats (spacing 2^-23) and ties to the even one, 1 + 2^-11; so
// two roundings give exactly 0 and a fused operation gives 2^-24. The generic x86-64 has no FMA and cannot fuse, so the
// functions are also compiled for a target that can: without the flag g++ 12 and clang 14 both return 0x33800000 there.
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>

namespace {

constexpr float kA = 0x1.001p0f;   // 1 + 2^-12
constexpr float kC = -0x1.002p0f;  // -(1 + 2^-11)

#if defined(__GNUC__)
#define FP4_NOINLINE __attribute__((noinline))
#else
#define FP4_NOINLINE
#endif
#if defined(__x86_64__)
#define FP4_FMA __attribute__((noinline, target("avx2,fma")))
#else
#define FP4_FMA FP4_NOINLINE
#endif

FP4_NOINLINE float generic(float a, float b, float c) { return a * b + c; }
FP4_FMA float on_fma(float a, float b, float c) { return a * b + c; }
FP4_FMA void loop_on_fma(const float* a, const float* b, float* c, int count) {
  for (int i = 0; i < count; ++i) c[i] += a[i] * b[i];
}

bool has_fma() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
#else
  return true;
#endif
}

}  // namespace

TEST_CASE("a*b + c rounds twice", "[quick]") {
  CHECK(std::bit_cast<std::uint32_t>(generic(kA, kA, kC)) == 0u);
  if (!has_fma()) {
    WARN("this machine has no FMA: the fusing targets are not run");
    return;
  }
  CHECK(std::bit_cast<std::uint32_t>(on_fma(kA, kA, kC)) == 0u);
  float a[37], c[37];
  for (int i = 0; i < 37; ++i) {
    a[i] = kA;
    c[i] = kC;
  }
  loop_on_fma(a, a, c, 37);
  for (int i = 0; i < 37; ++i) CHECK(std::bit_cast<std::uint32_t>(c[i]) == 0u);
}
