// fp32_block on the bf16 matrix units:
//   acc <- RN32(acc + d),  d the dot of a block with both scales, one instruction (two for blocks of 32) from zero.
// Operands are decoded to bf16 with the block's scale folded in: E2M1 times E4M3 has at most 6 significant bits, E2M1
// times a power of two has 2. All terms of a block are multiples of one quantum and its sum is below 2^24 quanta
// (matrix_plan() in gemm_pipeline.cpp), so neither the order inside the unit nor what it cuts below 24 bits rounds;
// then one addition rounds.
//
// Powers of two reach further than bf16 products may: a scale beyond 2^-50 .. 2^50 stays outside (`left`), and the
// addition of a batch that has one (`far`) takes d * 2^left, exactly.
#pragma once

#include "src/gpu/matrix_unit.h"
#include "src/gpu/plain_gemm.h"

namespace fp4::gpu {

inline constexpr int steps_of_batch = 2;                 // instructions over k
inline constexpr int batch_k = unit_k * steps_of_batch;  // elements of k in shared memory at a time
inline constexpr int furthest_scale = 50;                // log2

// An operand as the kernel reads it.
struct Folded {
  uint16_t* values = nullptr;  // [rows, padded_k] bf16, zero beyond K
  int8_t* left = nullptr;      // [padded_k / 16, rows] log2 of what is not folded in; null: nothing ever is left
  uint32_t* far = nullptr;     // [ceil(rows / 128), padded_k / 32] not 0: some scale is left
  int64_t rows = 0;
  int64_t padded_k = 0;  // a multiple of 64
};

// Both operands of a product. A group is 128 rows and 64 elements of one of them: eight neighbours are a thread's.
struct FoldOperands {
  static constexpr int shared_words = 2 * group_threads;
  static constexpr int groups_at_once = 1;
  static constexpr int cols = 64;
  static constexpr int per_thread = 8;
  static constexpr int chunks = cols / per_thread;
  struct Side {
    Operand operand;
    Folded out;
    FP4_HD int64_t groups() const { return tiles_over(out.rows, matrix_tile) * (out.padded_k / cols); }
  };
  Side a;
  Side b;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const bool is_a = number < a.groups();
    fold(group, is_a ? a : b, is_a ? number : number - a.groups(), shared);
  }

 private:
  FP4_HD static void fold(Group group, const Side& side, int64_t number, uint32_t* shared) {
    const int64_t across = side.out.padded_k / cols;
    const int64_t tile = number / across;
    const int64_t first = number % across * cols;
    uint32_t* far = shared + group_threads;
    group.for_threads([&](int thread) {
      far[thread] = 0;
      for (int i = thread; i < matrix_tile * chunks; i += group_threads) {
        const int64_t row = tile * matrix_tile + i / chunks;
        if (row < side.out.rows) far[thread] |= fold_chunk(side, row, first + i % chunks * per_thread);
      }
    });
    if (side.out.left == nullptr) return;
    // Threads that agree modulo 8 have the same columns.
    constexpr int batches = cols / batch_k;
    for (int batch = 0; batch < batches; ++batch) {
      const bool is_far = group.any(
          shared, [&](int thread) { return thread % chunks / (chunks / batches) == batch && far[thread] != 0; });
      group.for_each(1, [&](int64_t) {
        side.out.far[tile * (side.out.padded_k / batch_k) + first / batch_k + batch] = is_far ? 1u : 0u;
      });
    }
  }

  // Eight elements from k on; 1 where an element that is not zero has a scale that is left.
  FP4_HD static uint32_t fold_chunk(const Side& side, int64_t row, int64_t k) {
    const Operand& o = side.operand;
    const bool is_inside = k < o.cols;
    float scale = is_inside ? o.scale(row, k) : 1.0f;
    int left = 0;
    if (side.out.left != nullptr && is_inside) {  // powers of two: the code is the exponent
      const int exponent = static_cast<int>(o.scales[o.scale_index(row, k)]) - 127;
      if (exponent < 128 && (exponent < -furthest_scale || exponent > furthest_scale)) {
        left = exponent;
        scale = 1.0f;
      }
    }
    uint32_t any = 0;
    FourWords words = {};
    FP4_UNROLL
    for (int j = 0; j < per_thread; ++j) {
      if (k + j >= o.cols) continue;
      const uint32_t bits = bits_of(decode(o.quantizer.element, o.code(row, k + j)) * scale) >> 16;
      any |= bits & 0x7FFFu;
      words.v[j / 2] |= bits << (16 * (j % 2));
    }
    *reinterpret_cast<FourWords*>(side.out.values + row * side.out.padded_k + k) = words;
    if (side.out.left != nullptr && k % unit_k == 0) {
      side.out.left[k / unit_k * side.out.rows + row] = static_cast<int8_t>(left);
    }
    return left != 0 && any != 0 ? 1u : 0u;
  }
};

// RN32(acc + d * 2^log2): both are exact in fp64; their sum there rounds to odd, which keeps what decides a tie.
FP4_HD inline float add_far(float acc, float d, int log2) {
  const double x = static_cast<double>(acc);
  const double y = static_cast<double>(d) * __builtin_bit_cast(double, static_cast<uint64_t>(log2 + 1023) << 52);
  const double sum = x + y;
  const double part = sum - x;
  const double error = (x - (sum - part)) + (y - part);
  uint64_t bits = bits_of(sum);
  const bool is_finite_sum = (bits >> 52 & 0x7FFu) != 0x7FFu;
  if (is_finite_sum && error != 0.0 && (bits & 1u) == 0) bits += (error > 0.0) == (sum > 0.0) ? 1u : ~uint64_t{0};
  return static_cast<float>(__builtin_bit_cast(double, bits));
}

// A group gives 128 x 128 outputs. Operands come by asynchronous copies, three batches deep, and on NVIDIA's chips go
// to registers by ldmatrix. 64 bytes of a row, 32 elements, are a batch: four pieces of 16 bytes, piece c of row r at
// place c ^ (r/2 mod 4), so that the eight rows that ldmatrix reads at a time lie in different banks. Blocks of 16 are
// added each, of 32 after both steps.
template <class Unit, int block>
struct FoldedGemm {
  static constexpr int groups_at_once = 2;
  static constexpr int stages = 3;
  static constexpr int batch_bytes = 2 * batch_k;
  static constexpr int batch_words = batch_bytes / 4;     // of a row
  static constexpr int rows_at_once = group_threads / 4;  // that a group copies; half of a tile
  static constexpr int side_words = matrix_tile * batch_words;
  static constexpr int shared_words = stages * 2 * side_words;
  static constexpr int tiles_down = 16;         // neighbours in the order of groups share operands in the cache
  static constexpr int steps = block / unit_k;  // instructions that make a block's sum
  static constexpr int columns = 2 / steps;     // of those, whose operands are read at once
  struct State : Fragments<Unit, steps> {
    uint32_t offset;  // of what a thread copies of each operand: 16 bytes of row thread/4 and of the row 64 below
  };
  using Registers = PerThread<State, group_threads>;

  PlainGemm plain;  // operands, finish, output
  Folded a;
  Folded b;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    const int64_t across = plain.groups_across(matrix_tile);
    const int64_t first_down = number / (tiles_down * across) * tiles_down;
    const int64_t down = smaller<int64_t>(tiles_over(plain.a.rows, matrix_tile) - first_down, tiles_down);
    const auto tile_a = static_cast<int>(first_down + number % (tiles_down * across) % down);
    const auto tile_b = static_cast<int>(number % (tiles_down * across) / down);
    const Place of_a = place_of(a, tile_a);
    const Place of_b = place_of(b, tile_b);
    const auto count = static_cast<int>(a.padded_k / batch_k);
    Registers registers;
    group.for_threads([&](int thread) {
      registers.of(thread).offset = static_cast<uint32_t>(thread / 4 * 2 * a.padded_k + thread % 4 * 16);
    });
    const bool may_be_far = is_far_anywhere(group, of_a, of_b, count, shared);
    for (int batch = 0; batch < stages - 1; ++batch) start(group, registers, of_a, of_b, batch, count, shared);
    FP4_NO_UNROLL
    for (int batch = 0; batch < count; ++batch) {
      wait_for_batches<stages - 2>();
      group.barrier();  // this batch is there, and nobody reads the one before any more
      start(group, registers, of_a, of_b, batch + stages - 1, count, shared);
      const uint32_t* values = shared + batch % stages * 2 * side_words;
      group.for_each_warp(Unit::lanes, [&](int warp) {
        if (may_be_far && (is_far_at(of_a, batch) || is_far_at(of_b, batch))) {
          add_far_batch(warp, values, tile_a, tile_b, batch, registers);
        } else {
          multiply_batch(warp, values, registers, [](int, int, int, int, int, float& acc, float d) { acc = acc + d; });
        }
      });
    }
    const float factor = plain.finish_factor();
    group.for_each_warp(Unit::lanes, [&](int warp) {
      registers.for_each_lane(warp * Unit::lanes, [&](int lane, State& f) {
        FP4_UNROLL
        for (int m = 0; m < Unit::tiles_m; ++m) {
          FP4_UNROLL
          for (int n = 0; n < Unit::tiles_n; ++n) {
            FP4_UNROLL
            for (int v = 0; v < 4; ++v) {
              const int64_t row = int64_t{tile_a} * matrix_tile + first_m(warp) + m * Unit::m + Unit::row_d(lane, v);
              const int64_t col = int64_t{tile_b} * matrix_tile + first_n(warp) + n * Unit::n + Unit::col_d(lane, v);
              if (row >= plain.a.rows || col >= plain.b.rows) continue;
              plain.store(row, col, canonical(f.acc[m][n][v] * factor));
            }
          }
        }
      });
    });
  }

 private:
  struct Place {
    const char* first = nullptr;
    int rows = 0;  // inside the operand
    const uint32_t* far = nullptr;
  };
  FP4_HD static Place place_of(const Folded& side, int64_t tile) {
    return {reinterpret_cast<const char*>(side.values + tile * matrix_tile * side.padded_k),
            static_cast<int>(smaller<int64_t>(side.rows - tile * matrix_tile, matrix_tile)),
            side.far == nullptr ? nullptr : side.far + tile * (side.padded_k / batch_k)};
  }
  FP4_HD static bool is_far_at(const Place& side, int batch) { return side.far != nullptr && side.far[batch] != 0; }
  FP4_HD static bool is_far_anywhere(Group group, const Place& a, const Place& b, int count, uint32_t* shared) {
    if (a.far == nullptr && b.far == nullptr) return false;
    return group.any(shared, [&](int thread) {
      bool is_far = false;
      for (int batch = thread; batch < count; batch += group_threads)
        is_far |= is_far_at(a, batch) || is_far_at(b, batch);
      return is_far;
    });
  }
  // The outputs of a warp: tiles_m x tiles_n instructions of m x n, warps_down warps above each other.
  FP4_HD static constexpr int first_m(int warp) { return warp % Unit::warps_down * Unit::tiles_m * Unit::m; }
  FP4_HD static constexpr int first_n(int warp) { return warp / Unit::warps_down * Unit::tiles_n * Unit::n; }
  // Only row mod 8 moves the pieces: 8 rows on, all lie 8 rows further.
  FP4_HD static int place(int row, int piece) { return row * batch_words + (piece ^ (row / 2 % 4)) * 4; }

  FP4_HD void start(Group group, Registers& registers, const Place& of_a, const Place& of_b, int batch, int count,
                    uint32_t* shared) const {
    if (batch < count) {
      uint32_t* to = shared + batch % stages * 2 * side_words;
      group.for_threads([&](int thread) {
        State& f = registers.of(thread);
        uint32_t* own = to + place(thread / 4, thread % 4);
        FP4_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int64_t from = f.offset + i * rows_at_once * 2 * a.padded_k;
          const int row = thread / 4 + i * rows_at_once;
          copy_async(own + i * rows_at_once * batch_words, of_a.first + from, row < of_a.rows);
          copy_async(own + i * rows_at_once * batch_words + side_words, of_b.first + from, row < of_b.rows);
        }
        f.offset += batch_bytes;
      });
    }
    finish_batch();
  }

  // add(lane, run, m, n, v, acc, d) for every block's sum d of the batch; `run` counts its blocks.
  template <class Add>
  FP4_HD static void multiply_batch(int warp, const uint32_t* values, Registers& registers, const Add& add) {
    const int first = warp * Unit::lanes;
    FP4_NO_UNROLL
    for (int run = 0; run < steps_of_batch / steps; ++run) {
      Unit::hold_reads();
      registers.for_each_lane(first, [&](int lane, State& f) {
        FP4_UNROLL
        for (int step = 0; step < steps; ++step) {
          FP4_UNROLL
          for (int m = 0; m < Unit::tiles_m; ++m) {
            read_a(values, first_m(warp) + m * Unit::m, run * steps + step, lane, f.a[step][m]);
          }
        }
      });
      FP4_UNROLL
      for (int n = 0; n < Unit::tiles_n; n += columns) {
        Unit::hold_reads();
        registers.for_each_lane(first, [&](int lane, State& f) {
          read_b(values + side_words, first_n(warp) + n * Unit::n, run * steps, lane, f.b);
        });
        FP4_UNROLL
        for (int i = 0; i < columns; ++i) {
          FP4_UNROLL
          for (int m = 0; m < Unit::tiles_m; ++m) {
            registers.for_each_lane(first, [&](int, State& f) {
              FP4_UNROLL
              for (float& d : f.d) d = 0.0f;
            });
            FP4_UNROLL
            for (int step = 0; step < steps; ++step) Unit::multiply(registers, first, step, m, i);
            registers.for_each_lane(first, [&](int lane, State& f) {
              FP4_UNROLL
              for (int v = 0; v < 4; ++v) add(lane, run, m, n + i, v, f.acc[m][n + i][v], f.d[v]);
            });
          }
        }
      }
    }
  }

  // The sums leave the registers, which a loop over all outputs would not fit beside them.
  struct Far {
    static constexpr int lanes = Unit::lanes, outputs = Unit::tiles_m * Unit::tiles_n * 4;
    float d[steps_of_batch / steps][outputs];
    float acc[outputs];
  };
  FP4_HD void add_far_batch(int warp, const uint32_t* values, int tile_a, int tile_b, int batch,
                            Registers& registers) const {
    const int first = warp * Unit::lanes;
    PerThread<Far, group_threads> sums;
    const auto index = [](int m, int n, int v) { return (m * Unit::tiles_n + n) * 4 + v; };
    multiply_batch(warp, values, registers, [&](int lane, int run, int m, int n, int v, float& acc, float d) {
      Far& far = sums.of(first + lane);
      far.d[run][index(m, n, v)] = d;
      far.acc[index(m, n, v)] = acc;
    });
    sums.for_each_lane(first, [&](int lane, Far& far) {
      FP4_NO_UNROLL
      for (int i = 0; i < Far::outputs; ++i) {
        const int m = i / 4 / Unit::tiles_n;
        const int n = i / 4 % Unit::tiles_n;
        const int64_t row = int64_t{tile_a} * matrix_tile + first_m(warp) + m * Unit::m + Unit::row_d(lane, i % 4);
        const int64_t col = int64_t{tile_b} * matrix_tile + first_n(warp) + n * Unit::n + Unit::col_d(lane, i % 4);
        float acc = far.acc[i];
        for (int run = 0; run < steps_of_batch / steps; ++run) {
          const int64_t at = batch * steps_of_batch + run * steps;
          acc = add_far(acc, far.d[run][i], left_at(a, row, at) + left_at(b, col, at));
        }
        far.acc[i] = acc;
      }
    });
    registers.for_each_lane(first, [&](int lane, State& f) {
      FP4_UNROLL
      for (int m = 0; m < Unit::tiles_m; ++m) {
        FP4_UNROLL
        for (int n = 0; n < Unit::tiles_n; ++n) {
          FP4_UNROLL
          for (int v = 0; v < 4; ++v) f.acc[m][n][v] = sums.of(first + lane).acc[index(m, n, v)];
        }
      }
    });
  }
  FP4_HD static int left_at(const Folded& side, int64_t row, int64_t run) {
    return side.left == nullptr || row >= side.rows ? 0 : side.left[run * side.rows + row];
  }

  // A step's two pieces of the rows of one instruction of `a`; two such of `b`, below or beside each other. ldmatrix
  // takes the address of one row and piece from each lane and gives word lane%4 of row lane/4 of each of four times 8
  // rows.
  FP4_HD static void read_a(const uint32_t* values, int row, int step, int lane, uint32_t (&a)[Unit::words_a]) {
#if FP4_GPU_NVIDIA_UNIT
    read_matrices(values + row * batch_words + place(lane % 16, 2 * step + lane / 16), a[0], a[1], a[2], a[3]);
#else
    for (int j = 0; j < Unit::words_a; ++j)
      a[j] = word_at(values, row + Unit::row_a(lane, j), step, Unit::byte_a(lane, j));
#endif
  }
  FP4_HD static void read_b(const uint32_t* values, int row, int step, int lane,
                            uint32_t (&b)[steps][columns][Unit::words_b]) {
#if FP4_GPU_NVIDIA_UNIT
    const int below = lane / 16 * 8 % (columns * 8);
    read_matrices(values + row * batch_words + place(below + lane % 8, 2 * step + lane / 8 % (2 * steps)), b[0][0][0],
                  b[0][0][1], b[steps - 1][columns - 1][0], b[steps - 1][columns - 1][1]);
#else
    for (int s = 0; s < steps; ++s) {
      for (int i = 0; i < columns; ++i) {
        for (int j = 0; j < Unit::words_b; ++j) {
          b[s][i][j] = word_at(values, row + i * Unit::n + Unit::row_b(lane), step + s, Unit::byte_b(lane, j));
        }
      }
    }
#endif
  }
  FP4_HD static uint32_t word_at(const uint32_t* values, int row, int step, int byte) {
    return values[place(row, 2 * step + byte / 16) + byte / 4 % 4];
  }
#if FP4_GPU_NVIDIA_UNIT
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
