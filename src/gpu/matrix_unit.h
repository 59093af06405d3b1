// The integer matrix units: d[m][n] += sum over 32 of a[m][k]*b[n][k], signed bytes, 32-bit sums, exact. One struct per
// vendor says which lane holds what; where both halves of k are needed apart (blocks of 16), `half` picks one. A lane's
// output v lies in row v / cols_d and column v % cols_d of those it has.
//   NvidiaUnit  mma.sync m16n8k32 / m16n8k16 .s8 (PTX ISA, "Matrix fragments for mma.m16n8k32"), sm_80 and later
//   AmdUnit     v_mfma_i32_16x16x16i8 (gfx908, gfx90a) or v_mfma_i32_16x16x32_i8 (gfx940 and later)
// On the host the same fragments are multiplied by plain loops over the layout, which is how tests prove the layout
// consistent without a device. The order inside a block is free: the sum is exact.
#pragma once

#include "src/gpu/group.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define FP4_GPU_NVIDIA_UNIT 1
#else
#define FP4_GPU_NVIDIA_UNIT 0
#endif
#if FP4_DEVICE_CODE && (defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__))
#define FP4_GPU_AMD_UNIT 32
#elif FP4_DEVICE_CODE && (defined(__gfx908__) || defined(__gfx90a__))
#define FP4_GPU_AMD_UNIT 16
#else
#define FP4_GPU_AMD_UNIT 0
#endif

namespace fp4::gpu {

inline constexpr int unit_k = 32;
inline constexpr int both_halves = -1;

template <class Unit>
struct Fragments {
  static constexpr int lanes = Unit::lanes;
  static constexpr int rows_d = 4 / Unit::cols_d;
  uint32_t a[Unit::tiles_m][Unit::words_a];
  uint32_t b[Unit::words_b];
  uint32_t word_a[Unit::tiles_m][rows_d];  // scale words of the output's rows and columns
  uint32_t word_b[Unit::cols_d];
  int32_t d[4];
  float acc[Unit::tiles_m][Unit::tiles_n][4];

  FP4_HD uint32_t word_of_a(int m, int v) const { return word_a[m][v / Unit::cols_d]; }
  FP4_HD uint32_t word_of_b(int v) const { return word_b[v % Unit::cols_d]; }
};

FP4_HD constexpr int signed_byte(uint32_t word, int i) { return static_cast<int8_t>(word >> (8 * i)); }

// The product by definition: every lane's bytes go to their places, then plain loops.
template <class Unit, class Registers>
inline void multiply_by_definition(Registers& registers, int first, int m, int half) {
  int a[Unit::m][unit_k] = {};
  int b[Unit::n][unit_k] = {};
  registers.for_all_lanes(first, [&](int lane, Fragments<Unit>& f) {
    for (int j = 0; j < Unit::words_a; ++j) {
      for (int i = 0; i < 4; ++i) a[Unit::row_a(lane, j)][Unit::byte_a(lane, j) + i] = signed_byte(f.a[m][j], i);
    }
    for (int j = 0; j < Unit::words_b; ++j) {
      for (int i = 0; i < 4; ++i) b[Unit::row_b(lane)][Unit::byte_b(lane, j) + i] = signed_byte(f.b[j], i);
    }
  });
  const int begin = half == 1 ? unit_k / 2 : 0;
  const int end = half == 0 ? unit_k / 2 : unit_k;
  registers.for_each_lane(first, [&](int lane, Fragments<Unit>& f) {
    for (int v = 0; v < 4; ++v) {
      uint32_t sum = static_cast<uint32_t>(f.d[v]);  // wraps like the unit
      for (int k = begin; k < end; ++k) {
        sum += static_cast<uint32_t>(a[Unit::row_d(lane, v)][k] * b[Unit::col_d(lane, v)][k]);
      }
      f.d[v] = static_cast<int32_t>(sum);
    }
  });
}

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

  template <class Registers>
  FP4_HD static void multiply(Registers& registers, [[maybe_unused]] int first, int m_tile, int half) {
#if FP4_GPU_NVIDIA_UNIT
    registers.for_each_lane(first, [&](int, Fragments<NvidiaUnit>& f) {
      const uint32_t* a = f.a[m_tile];
      const uint32_t* b = f.b;
      if (half == both_halves) {
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+r"(f.d[0]), "+r"(f.d[1]), "+r"(f.d[2]), "+r"(f.d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      } else {  // rows and columns as above, 16 bytes of k
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+r"(f.d[0]), "+r"(f.d[1]), "+r"(f.d[2]), "+r"(f.d[3])
                     : "r"(half == 0 ? a[0] : a[2]), "r"(half == 0 ? a[1] : a[3]), "r"(half == 0 ? b[0] : b[1]));
      }
    });
#elif !FP4_DEVICE_CODE
    multiply_by_definition<NvidiaUnit>(registers, first, m_tile, half);
#endif
  }
};

// A wave of 64 lanes works on 64 x 64 outputs: 4 x 4 instructions of 16 x 16; 2 x 2 waves make 128 x 128. A lane holds
// 8 bytes of a row: bytes 8*(lane/16) to +7. gfx90a multiplies them as two halves of 4; any order of k will do.
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
  FP4_HD static void multiply(Registers& registers, [[maybe_unused]] int first, int m_tile, int half) {
#if FP4_GPU_AMD_UNIT
    using Sums = int32_t __attribute__((ext_vector_type(4)));
    registers.for_each_lane(first, [&](int lane, Fragments<AmdUnit>& f) {
      // Lanes 0..31 hold the first 16 bytes of k: the other half is multiplied by zeros.
      const bool is_in = half == both_halves || (lane >= 32) == (half == 1);
      const uint32_t a0 = is_in ? f.a[m_tile][0] : 0u;
      const uint32_t a1 = is_in ? f.a[m_tile][1] : 0u;
      const uint32_t b0 = f.b[0];
      const uint32_t b1 = f.b[1];
      Sums d = {f.d[0], f.d[1], f.d[2], f.d[3]};
#if FP4_GPU_AMD_UNIT == 32
      d = __builtin_amdgcn_mfma_i32_16x16x32_i8(static_cast<long>(uint64_t{a1} << 32 | a0),
                                                static_cast<long>(uint64_t{b1} << 32 | b0), d, 0, 0, 0);
#else
      d = __builtin_amdgcn_mfma_i32_16x16x16i8(static_cast<int>(a0), static_cast<int>(b0), d, 0, 0, 0);
      d = __builtin_amdgcn_mfma_i32_16x16x16i8(static_cast<int>(a1), static_cast<int>(b1), d, 0, 0, 0);
#endif
      for (int v = 0; v < 4; ++v) f.d[v] = d[v];
    });
#elif !FP4_DEVICE_CODE
    multiply_by_definition<AmdUnit>(registers, first, m_tile, half);
#endif
  }
};

}  // namespace fp4::gpu
