// What the integer kernels of every instruction set agree on: where a tile reads and writes.
#pragma once

#include "fp4/gemm.h"
#include "src/cpu/quantize/load_body.h"
#include "src/cpu/simd/lanes.h"

namespace fp4::FP4_ISA {

inline constexpr int tile_rows = 8;

struct TileOutput {
  float* c;
  int64_t stride;
  int rows;
  int cols;
  F factor;
  uint32_t nan_rows;  // bits
  uint64_t nan_cols;
  bool is_finite;  // the factor, and all sums: those in fp16 may be infinite
};

// Where a tile reads: bytes of A (from its first row on) and of up to two panels of B, and how scales advance.
struct TileInput {
  const int8_t* a;
  const int8_t* b[2];
  const float* scale_a;
  const float* scale_b[2];
  const int32_t* correction[2];
  int64_t runs;
  int64_t run4;       // dwords per run
  int scale_shift_a;  // scale index = run >> shift
  int scale_shift_b;
  float quantum;        // of a product
  int32_t start;        // what corrections hold besides
  bool exact_products;  // dots times both scales are floats
};

// NaN where a row or column of the tile has a NaN scale, and where a NaN came from an infinite factor.
FP4_TARGET inline void put_nans(const TileOutput& out) {
  for (int r = 0; r < out.rows; ++r) {
    for (int c = 0; c < out.cols; ++c) {
      float& x = out.c[r * out.stride + c];
      const bool nan = (out.nan_rows >> r & 1u) != 0 || (out.nan_cols >> c & 1u) != 0;
      x = nan ? float_of(canonical_nan_bits) : canonical(x);
    }
  }
}

// To the nearest multiple of 2^snap_log2, ties to even: adding 1.5 * 2^(52 + snap) rounds there, and larger sums are
// multiples already.
FP4_SIMD F snapped_lanes(F acc, int snap_log2) {
  if (snap_log2 == no_snap) return acc;
  const double magic = 1.5 * static_cast<double>(power_of_two(snap_log2)) * 0x1p52;
  const F rounded = narrowed((widened(acc) + all_double(magic)) - all_double(magic));
  const F a = as_float(bits(acc) & all(0x7FFFFFFF));
  return select(a < all(static_cast<float>(magic / 8)), rounded, acc);
}

// C of a tile from its sums.
template <int panels>
FP4_SIMD void finish_sums(const float (*sums)[panels * panel_rows], int snap_log2, const TileOutput& out) {
  for (int r = 0; r < out.rows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < panels; ++j) {
      const F sum = snapped_lanes(load(sums[r] + j * panel_rows), snap_log2);
      store(out.c + r * out.stride + j * panel_rows, sum * out.factor, first_lanes(out.cols - j * panel_rows));
    }
  }
  if ((out.nan_rows | out.nan_cols) != 0 || !out.is_finite) put_nans(out);
}

// Exponents of scales as aligned sums see them: at least the smallest normal one, -126 for zero.
FP4_SIMD I scale_exponents(F s, int least) {
  return select(s == all(0.0f), all(-126), larger(shift_right<23>(bits(s)) - all(127), all(least)));
}

using TileKernel = void (*)(const TileInput&, const TileOutput&);

enum class Sum : uint8_t { block, group, aligned, floor, loop };

// Products of level panels (level_body.h): K comes in pieces that keep the panels of B in L1; between pieces the int32
// sums wait in `sums`.
inline constexpr int whole_panels = 3;
inline constexpr int64_t whole_k_piece = 512;

struct WholeInput {
  const int8_t* a;
  const int8_t* b[whole_panels];
  int64_t count4;  // dwords of K in this piece
  bool first;
  bool last;
  int32_t* sums;  // [8][panels][16]
  const float* scale_a;
  const float* scale_b[whole_panels];
  const int32_t* start[whole_panels];
  float quantum;
  bool scales;  // the factor of the output is not 1
  int snap_log2;
};

using WholeKernel = void (*)(const WholeInput&, const TileOutput&);

// How the sums of a tile fold (accumulate.h).
struct Folding {
  Sum sum = Sum::block;
  int64_t group = 0;                     // products; 0: all of K, rounded once to nearest
  int64_t runs_per_group = 0;            // the same in runs
  int64_t chunk = 1;                     // products of a term
  int64_t run = 0;                       // products between changes of scales, at most
  bool toward_zero = false;              // group: of the additions
  int fraction_bits = 35;                // aligned
  uint32_t kept_bits = ~0u;              // aligned: of a sum
  uint32_t element_bits = ~0u;           // those that an adder of tf32 reads of an element
  bool is_half = false;                  // aligned: sums in fp16, to nearest
  int least_sum = -127;                  // aligned: least weight of a sum
  int step = 1;                          // floor: 2 where even and odd products are summed apart
  int zero_exponent = no_zero_exponent;  // aligned: weight of what is zero
  bool only_whole = false;               // aligned: a sum that would be cut is not this one's (uncut_row)
  int a_offset = 0;                      // what A's bytes hold besides their values
  bool splits = false;                   // aligned: sums of terms may exceed fp64
  int64_t runs = 0;                      // within K: padding adds nothing, not even an exponent
  int least_exponent_a = -127;           // aligned: smallest normal exponent of the scale formats
  int least_exponent_b = -127;
  int lowest_bit = 0;  // every sum is a whole multiple of 2^lowest_bit times the least weight
  int sum_log2 = 0;    // and below 2^sum_log2 times the largest
  int snap_log2 = no_snap;
};

// Units as powers of two of the quantum (pairs_body.h).
struct PairUnits {
  bool serves = false;
  int cut_a = 0;  // the coarsest; panels of A have their own
  int least_cut_a = 0;
  int cut_b = 0;
};

// Rests that every list of a run has at least: most runs have one or two, and hardly any branches on their number.
inline constexpr int least_rests = 2;

inline constexpr int pair_panels = 2;
inline constexpr int64_t pair_run = 32;  // elements of a dot: the blocks of MXFP8

// Where a tile of pairs reads: from its first row and run on.
struct PairInput {
  const int16_t* a;
  const cpu::Rest* rests;     // of all of the rows' K
  const int32_t* rest_start;  // [runs + 1]
  const int16_t* b[2];
  const int16_t* rest_b[2];
  const uint32_t* marks_b[2];
  const float* scale_a;
  const float* scale_b[2];
  int64_t runs;
  int scale_shift_a;
  int scale_shift_b;
  int cut_a;  // log2 of unit / quantum
  int cut_b;
  float unit;     // product of the units
  float quantum;  // product of the quanta
  int snap_log2;
};

// Scales as integers, from a tile's first row on (group_scales_body.h).
struct GroupInput {
  const uint32_t* factor_a;  // [pair of runs][16]
  const uint32_t* factor_b;
  const float* unit_a;  // [group][16]
  const float* unit_b;
};
using GroupKernel = void (*)(const TileInput&, const GroupInput&, const Folding&, const TileOutput&);

// false: some sum was inexact, C is not written.
using WideKernel = bool (*)(const TileInput&, const Folding&, const TileOutput&);
using PairKernel = bool (*)(const PairInput&, const TileOutput&);
// Aligned sums of cut terms (gemm_cut_avx512.h), of at most this many a group.
inline constexpr int largest_terms = 16;
// false: a sum would be cut under only_whole, C is not written.
using CutKernel = bool (*)(const TileInput&, const Folding&, const TileOutput&);
// Aligned sums (gemm_single_avx512.h), given the largest exponent that cuts nothing; false: not
// proven, C is not written.
using SingleKernel = bool (*)(const TileInput&, const Folding&, int, const TileOutput&);

}  // namespace fp4::FP4_ISA
