// Brings 16 rows of an operand, a chunk of K at a time, into a local buffer [k][16 rows]: row-major operands are
// transposed in registers, column-major ones are read as they lie, and the Hadamard runs down the buffer, where a
// butterfly is one addition of whole vectors.
#pragma once

#include <cstring>

#include "src/cpu/quantize/quantize_plan.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

using cpu::panel_rows;
using cpu::Panels;
using cpu::QuantPlan;

inline constexpr int largest_chunk = 256;
using LaneBuffer = float (*)[panel_rows];

// Sixteen rows to read, column by column, in a buffer or where they lie.
struct Columns {
  const float* first = nullptr;
  int64_t stride = panel_rows;

  Columns() = default;
  Columns(LaneBuffer buffer) : first(buffer[0]) {}
  Columns(const float* x, int64_t between) : first(x), stride(between) {}
  FP4_SIMD const float* operator[](int64_t k) const { return first + k * stride; }
  FP4_SIMD Columns operator+(int64_t k) const { return {first + k * stride, stride}; }
};

// fp32 to the nearest bf16; finite ones may overflow, by their carry.
FP4_SIMD F nearest_bf16(F x) {
  const I a = bits(x) & all(0x7FFFFFFF);
  const I up = a + all(0x7FFF) + (shift_right<16>(a) & all(1));
  const I kept = smaller(up, all(0x7F800000)) & all(0xFFFF0000u);
  return as_float(kept | (bits(x) & all(0x80000000u)));
}

// Elements as they count, where they do not as they are (plan.prepares): zeros with the sign that a policy gives them,
// then bf16, of which no finite one becomes infinite.
FP4_TARGET inline void prepare_columns(const QuantPlan& p, int n, LaneBuffer buffer) {
  const I zero = all(p.q.negative_zero == NegativeZero::zeros ? 0x80000000u : 0u);
  const bool sets_zeros = p.q.negative_zero == NegativeZero::zeros || p.q.negative_zero == NegativeZero::of_rounding;
  for (int k = 0; k < n; ++k) {
    F x = load(buffer[k]);
    if (sets_zeros) x = select(x == all(0.0f), as_float(zero), x);
    if (p.q.compute == Compute::bf16) {
      const I sign = bits(x) & all(0x80000000u);
      const I a = bits(x) & all(0x7FFFFFFF);
      const I rounded = smaller(bits(nearest_bf16(as_float(a))), all(float_largest_bits));
      x = as_float(sign | select(a < all(0x7F800000), rounded, a));
    }
    store(buffer[k], x);
  }
}

FP4_TARGET inline void load_row_major(const float* x, int64_t stride, int rows, int valid, LaneBuffer buffer) {
  int k = 0;
  F columns[4];
  if (rows == panel_rows) {
    for (; k + 4 <= valid; k += 4) {
      transpose_16x4(x + k, stride, columns);
      for (int i = 0; i < 4; ++i) store(buffer[k + i], columns[i]);
    }
  }
  for (; k < valid; k += 4) {
    alignas(64) float patch[panel_rows][4] = {};
    const size_t width = sizeof(float) * static_cast<size_t>(valid - k < 4 ? valid - k : 4);
    for (int r = 0; r < rows; ++r) std::memcpy(patch[r], x + r * stride + k, width);
    transpose_16x4(patch[0], 4, columns);
    for (int i = 0; i < 4 && k + i < valid; ++i) store(buffer[k + i], columns[i]);
  }
}

// One Hadamard tile of h rows of the buffer.
FP4_TARGET inline void transform_tile(LaneBuffer x, const HadamardSpec& h, const HadamardSignMask& signs) {
  if (h.signs != HadamardSigns::none) {
    for (int j = 0; j < h.size; ++j) {
      if (signs.is_minus(j)) store(x[j], as_float(bits(load(x[j])) ^ all(0x80000000u)));
    }
  }
  // Two strides at once: four loads and stores for eight additions.
  int stride = 1;
  for (; 4 * stride <= h.size; stride *= 4) {
    for (int base = 0; base < h.size; base += 4 * stride) {
      for (int j = base; j < base + stride; ++j) {
        const F a = load(x[j]);
        const F b = load(x[j + stride]);
        const F c = load(x[j + 2 * stride]);
        const F d = load(x[j + 3 * stride]);
        const F ab = a + b;
        const F a_b = a - b;
        const F cd = c + d;
        const F c_d = c - d;
        store(x[j], ab + cd);
        store(x[j + stride], a_b + c_d);
        store(x[j + 2 * stride], ab - cd);
        store(x[j + 3 * stride], a_b - c_d);
      }
    }
  }
  for (; stride < h.size; stride *= 2) {
    for (int base = 0; base < h.size; base += 2 * stride) {
      for (int j = base; j < base + stride; ++j) {
        const F a = load(x[j]);
        const F b = load(x[j + stride]);
        store(x[j], a + b);
        store(x[j + stride], a - b);
      }
    }
  }
  if (forward_factor(h) != 1.0f) {
    const F factor = all(forward_factor(h));
    for (int j = 0; j < h.size; ++j) store(x[j], load(x[j]) * factor);
  }
}

// Rows row0.. (at most 16), columns k0..k0+n of the transformed operand; zeros outside. n is a multiple of the
// Hadamard size.
FP4_TARGET inline void load_chunk(const QuantPlan& p, int64_t row0, int64_t k0, int n, LaneBuffer buffer) {
  const int rows = static_cast<int>(p.rows - row0 < panel_rows ? p.rows - row0 : panel_rows);
  const int64_t left = p.x.cols - k0;
  const int valid = static_cast<int>(left <= 0 ? 0 : (left < n ? left : n));
  const float* x = p.x.data + row0 * p.x.row_stride + k0 * p.x.col_stride;
  if (p.x.row_stride == 1 && rows == panel_rows) {
    for (int k = 0; k < valid; ++k) store(buffer[k], load(x + k * p.x.col_stride));
  } else if (p.x.row_stride == 1) {
    const M mask = first_lanes(rows);
    for (int k = 0; k < valid; ++k) store(buffer[k], load(x + k * p.x.col_stride, mask));
  } else if (p.x.col_stride == 1) {
    load_row_major(x, p.x.row_stride, rows, valid, buffer);
  } else {
    for (int k = 0; k < valid; ++k) {
      for (int r = 0; r < panel_rows; ++r) {
        buffer[k][r] = r < rows ? x[r * p.x.row_stride + k * p.x.col_stride] : 0.0f;
      }
    }
  }
  for (int k = valid; k < n; ++k) store(buffer[k], all(0.0f));
  if (p.hadamard.size > 0) {
    for (int k = 0; k < n; k += p.hadamard.size) {
      if (k0 + k < p.cols) transform_tile(buffer + k, p.hadamard, p.signs);
    }
  }
  if (p.prepares) prepare_columns(p, static_cast<int>(smaller<int64_t>(larger<int64_t>(p.cols - k0, 0), n)), buffer);
}

// Columns of load_chunk where they lie, if they can be read there, else in the buffer.
FP4_SIMD Columns columns_of(const QuantPlan& p, int64_t row0, int64_t k0, int n, LaneBuffer buffer) {
  if (p.x.row_stride == 1 && row0 + panel_rows <= p.rows && k0 + n <= p.x.cols && p.hadamard.size == 0 && !p.prepares)
    return {p.x.data + row0 + k0 * p.x.col_stride, p.x.col_stride};
  load_chunk(p, row0, k0, n, buffer);
  return buffer;
}

}  // namespace fp4::FP4_ISA
