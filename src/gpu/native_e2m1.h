// The chips' own conversion of two floats to two e2m1 codes, round to nearest even, behind a compile guard:
//   gfx950            v_cvt_scalef32_pk_fp4_f32 (scale 1: the payload is made by us, exactly)
//   sm_100a, sm_120a  cvt.rn.satfinite.e2m1x2.f32 (the `a` targets only; plain sm_100 would emulate it)
// A device uses it only after ProbeNative found no difference from quick_e2m1 on that very device.
#pragma once

#include "src/gpu/group.h"
#include "src/gpu/quick_e2m1.h"

#if FP4_DEVICE_CODE && defined(__gfx950__)
#define FP4_GPU_NATIVE_AMD 1
#else
#define FP4_GPU_NATIVE_AMD 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL)
#define FP4_GPU_NATIVE_NVIDIA 1
#else
#define FP4_GPU_NATIVE_NVIDIA 0
#endif

namespace fp4::gpu {

inline constexpr bool has_native_e2m1 = FP4_GPU_NATIVE_AMD || FP4_GPU_NATIVE_NVIDIA;

// Two signed codes, the first in the low nibble; finite payloads.
FP4_HD inline uint32_t native_e2m1(float first, float second) {
#if FP4_GPU_NATIVE_AMD
  return __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(0u, first, second, 1.0f, 0) & 0xFFu;
#elif FP4_GPU_NATIVE_NVIDIA
  uint32_t codes = 0;  // the instruction puts its first source into the high nibble
  asm("{\n.reg .b8 pair, zero;\nmov.b16 {zero, pair}, 0;\n"
      "cvt.rn.satfinite.e2m1x2.f32 pair, %2, %1;\nmov.b32 %0, {pair, zero, zero, zero};\n}"
      : "=r"(codes)
      : "f"(first), "f"(second));
  return codes & 0xFFu;
#else
  static_cast<void>(first);
  static_cast<void>(second);
  return 0;
#endif
}

// Counts where the native conversion differs: every upper half of a float with five lower halves, in both places.
// `result` is no_answer where the code was compiled without a native conversion.
struct ProbeNative {
  static constexpr int shared_words = group_threads;
  static constexpr int groups_at_once = 1;
  static constexpr int groups = 65536 / group_threads;
  uint32_t* result = nullptr;  // [groups]

  FP4_HD static uint32_t differences(uint32_t upper) {
    uint32_t count = 0;
    for (const uint32_t lower : {0u, 1u, 0x7FFFu, 0x8000u, 0xFFFFu}) {
      const float u = float_of(upper << 16 | lower);
      if (!is_finite(u)) continue;
      uint32_t expected = quick_e2m1(Rounding::nearest_even, 8, magnitude(u), true, false, [] { return 0u; });
      if (expected == no_answer) expected = 0;  // below 2^-100
      expected |= is_negative(u) ? 8u : 0u;
      count += native_e2m1(u, 3.0f) != (expected | 5u << 4) ? 1u : 0u;
      count += native_e2m1(-6.0f, u) != (15u | expected << 4) ? 1u : 0u;
    }
    return count;
  }
  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    group.for_each(group_threads, [&](int64_t thread) {
      shared[thread] = has_native_e2m1 ? differences(static_cast<uint32_t>(number * group_threads + thread)) : 0u;
    });
    group.barrier();
    group.for_each(1, [&](int64_t) {
      uint32_t sum = 0;
      for (int i = 0; i < group_threads; ++i) sum += shared[i];
      result[number] = has_native_e2m1 ? sum : no_answer;
    });
  }
};

}  // namespace fp4::gpu
