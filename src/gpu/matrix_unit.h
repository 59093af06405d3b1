// The bf16 matrix units: d[m][n] += sum over 16 of a[m][k]*b[n][k]. One struct per vendor says which lane holds what; a
// lane's output v lies in row v / cols_d and column v % cols_d of those it has.
//   NvidiaUnit  mma.sync m16n8k16 .bf16 (PTX ISA, "Matrix fragments for mma.m16n8k16"), sm_80 and later
//   AmdUnit     v_mfma_f32_16x16x16_bf16, gfx90a and later
// How many bits such a unit keeps is not in its manual: a device uses it only after probe_matrix_unit() found all sums
// right on that very device. On the host the units are emulated over the same fragments, so that tests prove the layout
// consistent: products and sum are cut toward zero `emulated_fraction_bits` below the largest term's leading bit, so
// that a test can show a unit with too few bits refused.
#pragma once

#include "src/gpu/group.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define FP4_GPU_NVIDIA_UNIT 1
#else
#define FP4_GPU_NVIDIA_UNIT 0
#endif
#if FP4_DEVICE_CODE && \
    (defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__))
#define FP4_GPU_AMD_UNIT 1
#else
#define FP4_GPU_AMD_UNIT 0
#endif

#if !FP4_DEVICE_CODE
#include <cmath>
#endif

namespace fp4::gpu {

inline constexpr int unit_k = 16;  // elements of k that one instruction sums

// What a lane holds of the instructions that make a block's sum: all rows of its warp, and the columns of two
// instructions of one step, or of one of two.
template <class Unit, int steps>
struct Fragments {
  static constexpr int lanes = Unit::lanes, columns = 2 / steps;
  uint32_t a[steps][Unit::tiles_m][Unit::words_a];
  uint32_t b[steps][columns][Unit::words_b];
  float d[4];
  float acc[Unit::tiles_m][Unit::tiles_n][4];
};

#if !FP4_DEVICE_CODE
inline int emulated_fraction_bits = 24;  // tests change it

// start + terms as a unit that aligns all of them to the largest and cuts what lies below.
inline float sum_of_aligned(float start, const double (&terms)[unit_k]) {
  double largest = std::fabs(static_cast<double>(start));
  double total = largest;  // NaN where one is
  for (const double term : terms) {
    largest = larger(largest, std::fabs(term));
    total += term;
  }
  if (std::isnan(total)) return float_of(canonical_nan_bits);
  if (largest == 0.0) return start;
  const int unit = std::ilogb(largest) - emulated_fraction_bits;
  const double per_unit = std::ldexp(1.0, -unit);
  double sum = std::trunc(static_cast<double>(start) * per_unit);
  for (const double term : terms) sum = sum + std::trunc(term * per_unit);
  sum = std::ldexp(sum, unit);
  const float rounded = static_cast<float>(sum);
  return std::fabs(static_cast<double>(rounded)) > std::fabs(sum) ? std::nextafter(rounded, 0.0f) : rounded;
}

// Every lane's elements go to their places, then one sum per output.
template <class Unit, class Registers>
inline void emulate(Registers& registers, int first, int step, int m, int n) {
  double a[Unit::m][unit_k] = {};
  double b[Unit::n][unit_k] = {};
  const auto element = [](uint32_t word, int i) { return static_cast<double>(float_of(word >> (16 * i) << 16)); };
  registers.for_all_lanes(first, [&](int lane, auto& f) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < Unit::words_a; ++j) {
        a[Unit::row_a(lane, j)][Unit::byte_a(lane, j) / 2 + i] = element(f.a[step][m][j], i);
      }
      for (int j = 0; j < Unit::words_b; ++j) {
        b[Unit::row_b(lane)][Unit::byte_b(lane, j) / 2 + i] = element(f.b[step][n][j], i);
      }
    }
  });
  registers.for_each_lane(first, [&](int lane, auto& f) {
    for (int v = 0; v < 4; ++v) {
      double terms[unit_k] = {};
      for (int k = 0; k < unit_k; ++k) terms[k] = a[Unit::row_d(lane, v)][k] * b[Unit::col_d(lane, v)][k];
      f.d[v] = sum_of_aligned(f.d[v], terms);
    }
  });
}
#endif

// A warp of 32 lanes works on 32 x 64 outputs: 2 x 8 instructions of 16 x 8; 4 x 2 warps make 128 x 128.
struct NvidiaUnit {
  static constexpr int lanes = 32, m = 16, n = 8, words_a = 4, words_b = 2, tiles_m = 2, tiles_n = 8, warps_down = 4;
  static constexpr int cols_d = 2;  // different columns among a lane's four outputs
  FP4_HD static constexpr int row_a(int lane, int word) { return lane / 4 + 8 * (word % 2); }
  FP4_HD static constexpr int byte_a(int lane, int word) { return lane % 4 * 4 + 16 * (word / 2); }
  FP4_HD static constexpr int row_b(int lane) { return lane / 4; }
  FP4_HD static constexpr int byte_b(int lane, int word) { return lane % 4 * 4 + 16 * word; }
  FP4_HD static constexpr int row_d(int lane, int v) { return lane / 4 + 8 * (v / 2); }
  FP4_HD static constexpr int col_d(int lane, int v) { return lane % 4 * 2 + v % 2; }

  // Reads of shared memory stay behind this line: moved up too far they crowd the registers.
  FP4_HD static void hold_reads() {
#if FP4_GPU_NVIDIA_UNIT
    __syncwarp();
#endif
  }

  // d += the step's rows m times its columns n.
  template <class Registers>
  FP4_HD static void multiply(Registers& registers, [[maybe_unused]] int first, int step, int m_tile, int n_tile) {
#if FP4_GPU_NVIDIA_UNIT
    registers.for_each_lane(first, [&](int, auto& f) {
      const uint32_t* a = f.a[step][m_tile];
      const uint32_t* b = f.b[step][n_tile];
      float* d = f.d;
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    });
#elif !FP4_DEVICE_CODE
    emulate<NvidiaUnit>(registers, first, step, m_tile, n_tile);
#endif
  }
};

// A wave of 64 lanes works on 64 x 64 outputs: 4 x 4 instructions of 16 x 16; 2 x 2 waves make 128 x 128. A lane holds
// 4 elements of a row: those from 4*(lane/16) on.
struct AmdUnit {
  static constexpr int lanes = 64, m = 16, n = 16, words_a = 2, words_b = 2, tiles_m = 4, tiles_n = 4, warps_down = 2;
  static constexpr int cols_d = 1;
  FP4_HD static constexpr int row_a(int lane, int) { return lane % 16; }
  FP4_HD static constexpr int byte_a(int lane, int word) { return lane / 16 * 8 + 4 * word; }
  FP4_HD static constexpr int row_b(int lane) { return lane % 16; }
  FP4_HD static constexpr int byte_b(int lane, int word) { return lane / 16 * 8 + 4 * word; }
  FP4_HD static constexpr int row_d(int lane, int v) { return lane / 16 * 4 + v; }
  FP4_HD static constexpr int col_d(int lane, int) { return lane % 16; }

  FP4_HD static void hold_reads() {}

  template <class Registers>
  FP4_HD static void multiply(Registers& registers, [[maybe_unused]] int first, int step, int m_tile, int n_tile) {
#if FP4_GPU_AMD_UNIT
    using Elements = short __attribute__((ext_vector_type(4)));
    using Sums = float __attribute__((ext_vector_type(4)));
    registers.for_each_lane(first, [&](int, auto& f) {
      const uint32_t* words = f.a[step][m_tile];
      const Elements a = __builtin_bit_cast(Elements, uint64_t{words[1]} << 32 | words[0]);
      const Elements b = __builtin_bit_cast(Elements, uint64_t{f.b[step][n_tile][1]} << 32 | f.b[step][n_tile][0]);
      Sums d = {f.d[0], f.d[1], f.d[2], f.d[3]};
      d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, d, 0, 0, 0);
      for (int v = 0; v < 4; ++v) f.d[v] = d[v];
    });
#elif !FP4_DEVICE_CODE
    emulate<AmdUnit>(registers, first, step, m_tile, n_tile);
#endif
  }
};

}  // namespace fp4::gpu
