// The quantiser for whole runs of 32 elements (quick_run.h): a thread makes one run, a group 256 of them, from memory
// through shared memory to codes with one barrier. Bound by bandwidth, not by instructions.
#pragma once

#include "src/gpu/quick_run.h"

namespace fp4::gpu {

inline constexpr int run_pitch = run_elements + 4;  // words: eight threads read their runs from different banks
inline constexpr int quick_words = group_threads * run_pitch;

// Rows that follow each other without a gap.
template <ScaleMode mode>
struct QuickRows {
  static constexpr int shared_words = quick_words + Measured::words;
  static constexpr int groups_at_once = 3;
  Floats<const float> data;  // [rows, cols], cols a multiple of 32
  int64_t runs = 0;          // of the operand
  QuickJob quick;

  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    float* tile = reinterpret_cast<float*>(shared);
    const int64_t first = number * group_threads;
    const int here = static_cast<int>(smaller<int64_t>(runs - first, group_threads));
    constexpr int per_run = run_elements / 4;
    group.for_threads([&](int thread) {
      Four v[per_run];
      FP4_UNROLL
      for (int i = 0; i < per_run; ++i) {
        const int n = i * group_threads + thread;
        if (n < here * per_run) v[i] = data.raw(first * run_elements + 4 * n);
      }
      FP4_UNROLL
      for (int i = 0; i < per_run; ++i) {
        const int n = i * group_threads + thread;
        if (n < here * per_run)
          *reinterpret_cast<Four*>(tile + n / per_run * run_pitch + n % per_run * 4) = data.widened(v[i]);
      }
    });
    const TensorFactor* const own =
        mode == ScaleMode::power ? nullptr : measured_factor(group, quick.job, number == 0, shared + quick_words);
    group.barrier();
    // Rows are runs of one long row: positions of draws and places of codes and scales agree.
    group.for_threads([&](int thread) {
      if (thread < here) write_run<mode, 1>(quick, own, tile + thread * run_pitch, 0, first + thread);
    });
  }
};

// 128 x 64 of a matrix: blocks along its rows (`along`, [rows, cols]), along its columns (`across`, the transpose), or
// both from one reading. A side without codes is left out.
template <ScaleMode mode>
struct QuickTile {
  static constexpr int shared_words = quick_words + Measured::words;
  static constexpr int groups_at_once = 3;
  static constexpr int rows = 128, cols = 64;
  static constexpr int runs_across = cols / run_elements;
  Floats<const float> data;  // [height, width], both multiples of 32
  int64_t height = 0;
  int64_t width = 0;
  QuickJob along;
  QuickJob across;

  FP4_HD int64_t tiles_wide() const { return tiles_over(width, cols); }
  FP4_HD void operator()(Group group, int64_t number, uint32_t* shared) const {
    float* tile = reinterpret_cast<float*>(shared);
    const int64_t first_row = number / tiles_wide() * rows;
    const int64_t first_col = number % tiles_wide() * cols;
    const int down = static_cast<int>(smaller<int64_t>(height - first_row, rows));
    const int wide = static_cast<int>(smaller<int64_t>(width - first_col, cols));
    const int64_t corner = first_row * width + first_col;
    group.for_threads([&](int thread) {
      constexpr int count = rows * cols / 4 / group_threads;
      Four v[count];
      FP4_UNROLL
      for (int i = 0; i < count; ++i) {
        const int r = row_of(i, thread);
        const int c = col_of(thread);
        if (r < down && c < wide) v[i] = data.raw(corner + r * width + c);
      }
      FP4_UNROLL
      for (int i = 0; i < count; ++i)
        *reinterpret_cast<Four*>(tile + place(row_of(i, thread), col_of(thread))) = data.widened(v[i]);
    });
    const TensorFactor* const own =
        mode == ScaleMode::power ? nullptr : measured_factor(group, across.job, number == 0, shared + quick_words);
    group.barrier();
    group.for_threads([&](int thread) {
      const int r = thread / runs_across;
      const int c = thread % runs_across * run_elements;
      if (along.job.out.codes == nullptr || r >= down || c >= wide) return;
      write_run<mode, 1>(along, nullptr, tile + place(r, c), first_row + r, (first_col + c) / run_elements);
    });
    group.for_threads([&](int thread) {
      const int c = thread % cols;
      const int r = thread / cols * run_elements;
      if (across.job.out.codes == nullptr || r >= down || c >= wide) return;
      write_run<mode, runs_across * run_pitch>(across, own, tile + place(r, c), first_col + c,
                                               (first_row + r) / run_elements);
    });
  }

 private:
  FP4_HD static int row_of(int i, int thread) { return i * (group_threads * 4 / cols) + thread / (cols / 4); }
  FP4_HD static int col_of(int thread) { return thread % (cols / 4) * 4; }
  FP4_HD static int place(int r, int c) { return (r * runs_across + c / run_elements) * run_pitch + c % run_elements; }
};

}  // namespace fp4::gpu
