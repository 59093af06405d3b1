// Operands as the fast gemms read them: panels of 16 rows, K padded, decoded to small integers or to floats. A panel is
// the unit of both sides: its rows are broadcast one by one on side A and fill the lanes on side B.
//   bytes   [panel][K/4][16 rows][4 k]   element value / quantum, as int8 (side B) or + byte_offset as uint8 (side A)
//   values  [panel][K][16 rows]          floats: element values, scaled or fully decoded values
//   pairs   [panel][K/2][16 rows][2 k]   element values in units of 16 bits; what they lose is a rest (pairs_body.h)
//   scale   [panel][K/block][16 rows]    decode-side block scales; a NaN scale is stored as 0 and noted in nan_rows
// A panel of bytes is level when every row has one scale: its bytes carry the differences (level_body.h).
#pragma once

#include <cstdint>

#include "fp4/backend.h"

namespace fp4::cpu {

inline constexpr int panel_rows = 16;

constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Exponent range of the non-zero scales of a panel, as float bits: a gemm checks its range conditions per tile.
struct ScaleRange {
  uint32_t least = 0xFFFFFFFFu;
  uint32_t largest = 0;

  constexpr int least_log2() const { return static_cast<int>(least >> 23) - 127; }
  constexpr int largest_log2() const { return static_cast<int>(largest >> 23) - 127; }
};

struct Level {
  bool possible = false;
  bool done = false;
  uint32_t largest_norm = 0;  // largest sum of squares of a row's level bytes
};

// What two elements of a row lose in their units: `words` as in pairs, `pair` counted from the start of the run.
struct Rest {
  int32_t words;
  uint16_t pair;
  uint16_t row;
};

struct Panels {
  int64_t rows = 0;
  int64_t cols = 0;    // K, Hadamard padding included
  int64_t padded = 0;  // K as stored
  int64_t block = 0;   // elements along K that share a scale
  int64_t count = 0;   // panels
  int64_t scales_per_panel = 0;
  int8_t* bytes = nullptr;
  float* values = nullptr;
  int16_t* pairs = nullptr;
  Rest* rests = nullptr;            // side A: [panel][half of 8 rows], lists in the order of runs
  int32_t* rest_start = nullptr;    // [panel][half][K/run + 1]
  int32_t* cut = nullptr;           // side A: [panel] log2 of unit / quantum
  float* norm = nullptr;            // [panel] at least the largest norm of a row's run of elements
  int16_t* column_rests = nullptr;  // side B: as pairs, where rest_marks says so
  uint32_t* rest_marks = nullptr;   // [panel][K/run] bit per pair
  float* scale = nullptr;
  int32_t* correction = nullptr;  // [panel][K/run][16]: start of a dot, for the other side's byte_offset
  uint16_t* nan_rows = nullptr;   // [panel] bit per row: a NaN scale within K
  ScaleRange* range = nullptr;    // [panel]
  float* outer = nullptr;         // [panel][outer_count][16] tensor factors of outer128 and row
  int64_t outer_count = 0;        // QuantSpec::tensor_scale_cols
  Level* level = nullptr;         // [panel]
  float* row_scale = nullptr;     // [panel][16] the one scale of each row, where the panel can be level
  int32_t* total = nullptr;       // [panel][16] corrections summed over all of K
  TensorFactor factor;

  const int8_t* panel_bytes(int64_t p) const { return bytes + p * padded * panel_rows; }
  const float* panel_values(int64_t p) const { return values + p * padded * panel_rows; }
  const int16_t* panel_pairs(int64_t p) const { return pairs + p * padded * panel_rows; }
  // A cache line beyond each list: room for a run's least, and lists of a power of two share no cache sets.
  int64_t rests_per_list() const { return padded / 4 * panel_rows + 8; }
  Rest* panel_rests(int64_t list) const { return rests + list * rests_per_list(); }
  bool starts_outer(int64_t k) const {
    return outer_count > 0 && k < cols && (outer_count > 1 ? k % outer_scale_width == 0 : k == 0);
  }
  const float* panel_scales(int64_t p) const { return scale + p * scales_per_panel * panel_rows; }
};

}  // namespace fp4::cpu
