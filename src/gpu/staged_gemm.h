// ExactGemm (exact_gemm.h) for NVIDIA's chips from sm_80 on: operands come by asynchronous copies, three batches deep,
// and go to registers by ldmatrix. 64 bytes of a row, 32 elements, are a batch: four pieces of 16 bytes, piece c of row
// r at place c ^ (r/2 mod 4), so that the eight rows that ldmatrix reads at a time lie in different banks.
#pragma once

#include "src/gpu/exact_gemm.h"

namespace fp4::gpu {

struct StagedGemm {
  using Unit = NvidiaBf16;
  static constexpr int groups_at_once = 2;
  static constexpr int stages = 3;
  static constexpr int batch_bytes = 64;
  static constexpr int batch_words = batch_bytes / 4;     // of a row
  static constexpr int rows_at_once = group_threads / 4;  // that a group copies; half of a tile
  static constexpr int side_words = matrix_tile * batch_words;
  static constexpr int shared_words = stages * 2 * side_words;
  static constexpr int tiles_down = 16;  // neighbours in the order of groups share operands in the cache
  struct State : ExactFragments<Unit> {
    uint32_t all_b[Unit::tiles_n][Unit::words_b];
    // What a thread copies of each operand: 16 bytes of row thread/4 and of the row 64 below.
    const char* from_a;
    const char* from_b;
    bool has_a[2];
    bool has_b[2];
  };
  using Registers = PerThread<State, group_threads>;
  using Side = ExactGemm<Unit>::Side;

  PlainGemm plain;  // operands, finish, output
  TileRule rule;
  Side a;
  Side b;
  int64_t row_bytes = 0;  // a multiple of 128

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const int64_t across = plain.groups_across(matrix_tile);
    const int64_t first_down = number / (tiles_down * across) * tiles_down;
    const int64_t down = smaller<int64_t>(tiles_over(plain.a.rows, matrix_tile) - first_down, tiles_down);
    const int64_t tile_a = first_down + number % (tiles_down * across) % down;
    const int64_t tile_b = number % (tiles_down * across) / down;
    if (rule.kind(tile_a, tile_b) != TileKind::exact) return;
    const Corner of_a = corner(a, tile_a);
    const Corner of_b = corner(b, tile_b);
    const auto count = static_cast<int>(row_bytes / batch_bytes);
    Registers registers;
    group.for_threads([&](int thread) {
      State& f = registers.of(thread);
      const int64_t offset = thread / 4 * row_bytes + thread % 4 * 16;
      f.from_a = of_a.first + offset;
      f.from_b = of_b.first + offset;
      for (int i = 0; i < 2; ++i) {
        f.has_a[i] = thread / 4 + i * rows_at_once < of_a.rows;
        f.has_b[i] = thread / 4 + i * rows_at_once < of_b.rows;
      }
    });
    for (int batch = 0; batch < stages - 1; ++batch) start(group, registers, batch, count, shared);
    FP4_NO_UNROLL
    for (int batch = 0; batch < count; ++batch) {
      wait_for_batches<stages - 2>();
      group.barrier();  // this batch is there, and nobody reads the one before any more
      start(group, registers, batch + stages - 1, count, shared);
      const uint32_t* values = shared + batch % stages * 2 * side_words;
      group.for_each_warp(Unit::lanes, [&](int warp) { multiply_batch(warp, values, registers); });
    }
    const float factor = finish_factor(plain);
    const float quantum = power_of_two(rule.exact_log2(tile_a, tile_b));
    group.for_each_warp(Unit::lanes, [&](int warp) {
      registers.for_each_lane(warp * Unit::lanes, [&](int lane, State& f) {
        for_outputs<Unit>(plain, tile_a, tile_b, warp, lane, [&](int64_t row, int64_t col, int m, int n, int v) {
          const float sum = f.acc[m][n][v];
          plain.c[row * plain.b.rows + col] = canonical((sum == 0.0f ? 0.0f : sum * quantum) * factor);
        });
      });
    });
  }

 private:
  struct Corner {
    const char* first = nullptr;
    int rows = 0;  // inside the operand
  };
  FP4_HD Corner corner(const Side& side, int64_t tile) const {
    return {static_cast<const char*>(side.values) + tile * matrix_tile * row_bytes,
            static_cast<int>(smaller<int64_t>(side.rows - tile * matrix_tile, matrix_tile))};
  }
  // Only row mod 8 moves the pieces: 8 rows on, all lie 8 rows further.
  FP4_HD static int place(int row, int piece) { return row * batch_words + (piece ^ (row / 2 % 4)) * 4; }

  FP4_HD void start(Group group, Registers& registers, int batch, int count, uint32_t* shared) const {
    if (batch < count) {
      uint32_t* to = shared + batch % stages * 2 * side_words;
      group.for_threads([&](int thread) {
        State& f = registers.of(thread);
        uint32_t* own = to + place(thread / 4, thread % 4);
        FP4_UNROLL
        for (int i = 0; i < 2; ++i) {
          copy_async(own + i * rows_at_once * batch_words, f.from_a + i * rows_at_once * row_bytes, f.has_a[i]);
          copy_async(own + i * rows_at_once * batch_words + side_words, f.from_b + i * rows_at_once * row_bytes,
                     f.has_b[i]);
        }
        f.from_a += batch_bytes;
        f.from_b += batch_bytes;
      });
    }
    finish_batch();
  }

  FP4_HD void multiply_batch(int warp, const uint32_t* values, Registers& registers) const {
    const int first = warp * Unit::lanes;
    FP4_UNROLL
    for (int step = 0; step < batch_bytes / Unit::step_bytes; ++step) {
      registers.for_each_lane(first, [&](int lane, State& f) {
        FP4_UNROLL
        for (int m = 0; m < Unit::tiles_m; ++m) {
          read_a(values, first_m<Unit>(warp) + m * Unit::m, 2 * step, lane, f.a[m]);
        }
        FP4_UNROLL
        for (int n = 0; n < Unit::tiles_n; n += 2) {
          read_b(values + side_words, first_n<Unit>(warp) + n * Unit::n, 2 * step, lane, f.all_b[n], f.all_b[n + 1]);
        }
      });
      FP4_UNROLL
      for (int n = 0; n < Unit::tiles_n; ++n) {
        registers.for_each_lane(first, [&](int, State& f) {
          f.b[0] = f.all_b[n][0];
          f.b[1] = f.all_b[n][1];
        });
        FP4_UNROLL
        for (int m = 0; m < Unit::tiles_m; ++m) Unit::multiply(registers, first, m, n);
      }
    }
  }

  // 16 rows and two pieces of `a`; 16 rows (two instructions' columns) and two pieces of `b`. ldmatrix takes the
  // address of one row and piece from each lane and gives word lane%4 of row lane/4 of each of four times 8 rows.
  FP4_HD static void read_a(const uint32_t* values, int row, int piece, int lane, uint32_t (&a)[4]) {
#if FP4_GPU_NVIDIA_BF16
    read_matrices(values + row * batch_words + place(lane % 16, piece + lane / 16), a[0], a[1], a[2], a[3]);
#else
    for (int j = 0; j < 4; ++j) {
      a[j] = values[place(row + Unit::row_a(lane, j), piece + Unit::byte_a(lane, j) / 16) + lane % 4];
    }
#endif
  }
  FP4_HD static void read_b(const uint32_t* values, int row, int piece, int lane, uint32_t (&low)[2],
                            uint32_t (&high)[2]) {
#if FP4_GPU_NVIDIA_BF16
    read_matrices(values + row * batch_words + place(lane / 16 * 8 + lane % 8, piece + lane / 8 % 2), low[0], low[1],
                  high[0], high[1]);
#else
    for (int j = 0; j < 2; ++j) {
      low[j] = values[place(row + Unit::row_b(lane), piece + j) + lane % 4];
      high[j] = values[place(row + 8 + Unit::row_b(lane), piece + j) + lane % 4];
    }
#endif
  }
#if FP4_GPU_NVIDIA_BF16
  FP4_HD static void read_matrices(const uint32_t* at, uint32_t& w0, uint32_t& w1, uint32_t& w2, uint32_t& w3) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w0), "=r"(w1), "=r"(w2), "=r"(w3)
                 : "r"(address)
                 : "memory");
  }
#endif
};

}  // namespace fp4::gpu
