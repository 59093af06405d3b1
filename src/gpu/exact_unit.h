// Floating-point matrix units for sums that no order rounds (TileKind::exact): acc[m][n] += sum over k of
// a[m][k]*b[n][k].
//   NvidiaBf16  mma.sync m16n8k16 .bf16 (sm_80 and later); its fragments lie as those of the s8 instruction, byte by
//   byte AmdBf16     v_mfma_f32_16x16x16_bf16 (gfx90a and later), likewise AmdScaled v_mfma_scale_f32_16x16x128_f8f6f4
//   (gfx950): e2m1 codes as they are stored, one power-of-two scale per 32
// How many bits such a unit keeps is not in its manual: a device uses it only after probe_matrix_unit() found all sums
// right on that very device. On the host the units are emulated with `emulated_fraction_bits` below the largest term's
// leading bit, products and sum cut toward zero: that a unit with too few bits is refused can be tested.
#pragma once

#include "src/gpu/matrix_unit.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define FP4_GPU_NVIDIA_BF16 1
#else
#define FP4_GPU_NVIDIA_BF16 0
#endif
#if FP4_DEVICE_CODE && \
    (defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__))
#define FP4_GPU_AMD_BF16 1
#else
#define FP4_GPU_AMD_BF16 0
#endif
#if FP4_DEVICE_CODE && defined(__gfx950__)
#define FP4_GPU_AMD_SCALED 1
#else
#define FP4_GPU_AMD_SCALED 0
#endif

#if !FP4_DEVICE_CODE
#include <cmath>
#endif

namespace fp4::gpu {

enum class ExactUnit : uint8_t { none, bf16, scaled };

template <class Unit>
struct ExactFragments {
  static constexpr int lanes = Unit::lanes;
  uint32_t a[Unit::tiles_m][Unit::words_a];
  uint32_t b[Unit::words_b];
  uint32_t scale_a[Unit::tiles_m];  // exponents, of units that scale
  uint32_t scale_b;
  float acc[Unit::tiles_m][Unit::tiles_n][4];
};

#if !FP4_DEVICE_CODE
inline int emulated_fraction_bits = 24;  // tests change it

// acc + terms as a unit that aligns all of them to the largest and cuts what lies below.
inline float sum_of_aligned(float acc, const double* terms, int count) {
  int largest = acc == 0.0f ? -1000 : std::ilogb(acc);
  for (int i = 0; i < count; ++i) {
    if (terms[i] != 0) largest = larger(largest, std::ilogb(terms[i]));
  }
  const double unit = std::ldexp(1.0, largest - emulated_fraction_bits);
  double sum = std::trunc(static_cast<double>(acc) / unit);
  for (int i = 0; i < count; ++i) sum = sum + std::trunc(terms[i] / unit);
  sum = sum * unit;
  const float rounded = static_cast<float>(sum);
  return std::fabs(static_cast<double>(rounded)) > std::fabs(sum) ? std::nextafter(rounded, 0.0f) : rounded;
}

// Every lane's elements go to their places, then one sum per output. `element(word, i)` is the i-th of a word's
// `per_word`.
template <class Unit, class Registers, class Element>
inline void emulate_exact_unit(Registers& registers, int first, int m, int n, const Element& element) {
  constexpr int per_word = 4 * Unit::step_elements / Unit::step_bytes;
  double a[Unit::m][Unit::step_elements] = {};
  double b[Unit::n][Unit::step_elements] = {};
  registers.for_all_lanes(first, [&](int lane, ExactFragments<Unit>& f) {
    for (int i = 0; i < per_word; ++i) {
      for (int j = 0; j < Unit::words_a; ++j) {
        a[Unit::row_a(lane, j)][Unit::byte_a(lane, j) / 4 * per_word + i] = element(f.a[m][j], i, f.scale_a[m]);
      }
      for (int j = 0; j < Unit::words_b; ++j) {
        b[Unit::row_b(lane)][Unit::byte_b(lane, j) / 4 * per_word + i] = element(f.b[j], i, f.scale_b);
      }
    }
  });
  registers.for_each_lane(first, [&](int lane, ExactFragments<Unit>& f) {
    for (int v = 0; v < 4; ++v) {
      double terms[Unit::step_elements] = {};
      for (int k = 0; k < Unit::step_elements; ++k) terms[k] = a[Unit::row_d(lane, v)][k] * b[Unit::col_d(lane, v)][k];
      f.acc[m][n][v] = sum_of_aligned(f.acc[m][n][v], terms, Unit::step_elements);
    }
  });
}
inline double bf16_element(uint32_t word, int i, uint32_t) {
  return static_cast<double>(float_of(word >> (16 * i) << 16));
}
inline double scaled_e2m1_element(uint32_t word, int i, uint32_t scale) {
  constexpr double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const uint32_t code = word >> (4 * i) & 0xFu;
  return std::ldexp((code & 8u) != 0 ? -values[code & 7u] : values[code & 7u], static_cast<int>(scale) - 127);
}
#endif

struct NvidiaBf16 : NvidiaUnit {
  static constexpr bool has_scales = false;
  static constexpr int step_bytes = 32, step_elements = 16;

  template <class Registers>
  FP4_HD static void multiply(Registers& registers, [[maybe_unused]] int first, int m, int n) {
#if FP4_GPU_NVIDIA_BF16
    registers.for_each_lane(first, [&](int, ExactFragments<NvidiaBf16>& f) {
      float* d = f.acc[m][n];
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(f.a[m][0]), "r"(f.a[m][1]), "r"(f.a[m][2]), "r"(f.a[m][3]), "r"(f.b[0]), "r"(f.b[1]));
    });
#elif !FP4_DEVICE_CODE
    emulate_exact_unit<NvidiaBf16>(registers, first, m, n, bf16_element);
#endif
  }
};

struct AmdBf16 : AmdUnit {
  static constexpr bool has_scales = false;
  static constexpr int step_bytes = 32, step_elements = 16;

  template <class Registers>
  FP4_HD static void multiply(Registers& registers, [[maybe_unused]] int first, int m, int n) {
#if FP4_GPU_AMD_BF16
    using Elements = short __attribute__((ext_vector_type(4)));
    using Sums = float __attribute__((ext_vector_type(4)));
    registers.for_each_lane(first, [&](int, ExactFragments<AmdBf16>& f) {
      const Elements a = __builtin_bit_cast(Elements, uint64_t{f.a[m][1]} << 32 | f.a[m][0]);
      const Elements b = __builtin_bit_cast(Elements, uint64_t{f.b[1]} << 32 | f.b[0]);
      Sums d = {f.acc[m][n][0], f.acc[m][n][1], f.acc[m][n][2], f.acc[m][n][3]};
      d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, d, 0, 0, 0);
      for (int v = 0; v < 4; ++v) f.acc[m][n][v] = d[v];
    });
#elif !FP4_DEVICE_CODE
    emulate_exact_unit<AmdBf16>(registers, first, m, n, bf16_element);
#endif
  }
};

// A lane holds 32 codes of a row, those of k = 32*(lane/16) on, and their scale.
struct AmdScaled {
  static constexpr bool has_scales = true;
  static constexpr int step_bytes = 64, step_elements = 128;
  static constexpr int lanes = 64, m = 16, n = 16, words_a = 4, words_b = 4, tiles_m = 4, tiles_n = 4, warps_down = 2;
  FP4_HD static constexpr int row_a(int lane, int) { return lane % 16; }
  FP4_HD static constexpr int byte_a(int lane, int word) { return lane / 16 * 16 + 4 * word; }
  FP4_HD static constexpr int row_b(int lane) { return lane % 16; }
  FP4_HD static constexpr int byte_b(int lane, int word) { return lane / 16 * 16 + 4 * word; }
  FP4_HD static constexpr int row_d(int lane, int v) { return lane / 16 * 4 + v; }
  FP4_HD static constexpr int col_d(int lane, int) { return lane % 16; }

  template <class Registers>
  FP4_HD static void multiply(Registers& registers, [[maybe_unused]] int first, int m_tile, int n_tile) {
#if FP4_GPU_AMD_SCALED
    using Codes = int __attribute__((ext_vector_type(8)));
    using Sums = float __attribute__((ext_vector_type(4)));
    constexpr int e2m1 = 4;
    registers.for_each_lane(first, [&](int, ExactFragments<AmdScaled>& f) {
      Codes a = {};
      Codes b = {};
      for (int j = 0; j < 4; ++j) {
        a[j] = static_cast<int>(f.a[m_tile][j]);
        b[j] = static_cast<int>(f.b[j]);
      }
      float* acc = f.acc[m_tile][n_tile];
      Sums d = {acc[0], acc[1], acc[2], acc[3]};
      d = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(a, b, d, e2m1, e2m1, 0, static_cast<int>(f.scale_a[m_tile]),
                                                           0, static_cast<int>(f.scale_b));
      for (int v = 0; v < 4; ++v) acc[v] = d[v];
    });
#elif !FP4_DEVICE_CODE
    emulate_exact_unit<AmdScaled>(registers, first, m_tile, n_tile, scaled_e2m1_element);
#endif
  }
};

}  // namespace fp4::gpu
