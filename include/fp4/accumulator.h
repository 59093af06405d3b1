// The adders of matrix units as rows of numbers: a kind and its parameters, so that a chip is described by data. How
// each kind adds stands in accumulate.h, aligned.h, windowed.h and floor_aligned.h. `evidence` says what stands behind
// a row: only `measured` ones claim to equal a device, in the words that their source names.
#pragma once

#include <climits>

#include "fp4/evidence.h"
#include "fp4/float_format.h"
#include "fp4/rounding.h"

namespace fp4 {

enum class AccumulatorKind : uint8_t {
  block,
  group,
  aligned,
  sequential,
  sequential_double,
  fma,
  floor_aligned,
  floor_aligned_pairs,
  windowed,
  fma_blocks,
  integer
};

inline constexpr AxisWord<AccumulatorKind> accumulator_kind_table[] = {
    {AccumulatorKind::block, "block", "acc = round(acc + dot*sA*sB), one rounding a block; without scales, a product"},
    {AccumulatorKind::group, "group", "groups summed exactly, rounded to fp32, added in order"},
    {AccumulatorKind::aligned, "aligned", "terms aligned to the largest exponent, cut to fraction_bits, added exactly"},
    {AccumulatorKind::sequential, "sequential", "acc = round(acc + round(a*b)) element by element"},
    {AccumulatorKind::sequential_double, "sequential_double", "the same in fp64, one rounding to fp32 at the end"},
    {AccumulatorKind::fma, "fma", "acc = fma(a, b, acc) on fully decoded values"},
    {AccumulatorKind::floor_aligned, "floor_aligned",
     "products aligned and cut; their sum and acc aligned, rounded down, added"},
    {AccumulatorKind::floor_aligned_pairs, "floor_aligned_pairs", "the same, even and odd products summed apart"},
    {AccumulatorKind::windowed, "windowed", "dots cut to a window that the products or the accumulator lead"},
    {AccumulatorKind::fma_blocks, "fma_blocks", "dots of blocks by fma, scaled, added in fp32"},
    {AccumulatorKind::integer, "integer", "products of integers in int32; a block's sum, scaled, added in fp32"},
};
static_assert(ids_are_indices(accumulator_kind_table));

inline constexpr int no_snap = INT_MIN;
inline constexpr int no_zero_exponent = INT_MIN;
inline constexpr int no_subnormal_floor = INT_MIN;
inline constexpr int fp32_result_bits = 23;

struct Accumulator {
  AccumulatorKind kind = AccumulatorKind::block;
  int group = 0;           // products per group; 0: all of K
  int inner = 1;           // aligned, windowed (where products lead): products summed exactly before they are cut
  int fraction_bits = 24;  // aligned: bits kept after the point of the largest exponent; windowed: of a product's
  Rounding group_rounding = Rounding::nearest_even;  // of a group's sum; sequential: of a product
  Rounding rounding = Rounding::nearest_even;        // of each addition (aligned: of its result)
  int snap_log2 = no_snap;  // the final sum to the nearest multiple of 2^snap_log2, ties to even
  // aligned: exponent of what is zero because all of its factors' products are: the accumulator, a term whose products
  // are all zero, or one under a zero scale. None: a zero accumulator or scale has -126 and a zero dot its scales' own.
  int zero_exponent = no_zero_exponent;
  int result_bits = fp32_result_bits;  // aligned, toward zero: bits after the point that a sum keeps
  // Operands without block scales of at most 16 bits go through the adder as well. Aligned sums of single products and
  // the floor kinds can.
  bool unscaled = false;
  bool tf32 = false;     // aligned, unscaled: and fp32 elements, whose last 13 bits are cleared before anything else
  bool is_half = false;  // aligned: sums are fp16 numbers
  // windowed: bits kept below the largest exponent of a pair of scales, and below that of an accumulator that leads.
  int scale_bits = 0;
  int carried_bits = 0;
  int carried_inner = 1;        // windowed: products summed exactly where the accumulator leads
  bool cuts_outranked = false;  // windowed: dots below the accumulator are cut as if it led
  bool clamps = false;          // integer: a group's sum beyond int32 becomes its end; else it is taken modulo 2^32
  int subnormal_floor = no_subnormal_floor;  // windowed: log2 of what dots of lesser scales need in a subnormal sum

  friend constexpr bool operator==(const Accumulator&, const Accumulator&) = default;
};

struct AccumulatorInfo {
  const char* name;
  const char* doc;
  const char* source;
  Evidence evidence;
  Accumulator row;
};

// clang-format off
inline constexpr AccumulatorInfo accumulator_table[] = {
    {"exact", "exact sum over all K, one rounding", "Kulisch", Evidence::defined, {.kind = AccumulatorKind::group}},
    {"fp32_block", "one fp32 rounding a block; operands without scales: fma_sequential", "OCP MX 1.0, 6.2 (general dot product)", Evidence::defined,
     {.kind = AccumulatorKind::block}},
    {"fp32_sequential", "dequantised fp32 loop, element by element", "PyTorch emulators", Evidence::defined, {.kind = AccumulatorKind::sequential}},
    {"k64_rz", "groups of 64 exact, added toward zero: the fit of one paper's probe, not Blackwell (b200_nvf4, b200_mxf4)", "2609.02846",
     Evidence::modelled, {.kind = AccumulatorKind::group, .group = 64, .rounding = Rounding::toward_zero}},
    {"k64_rz_snap", "k64_rz, then a multiple of 2^-10", "2609.02846 (comparator)", Evidence::modelled,
     {.kind = AccumulatorKind::group, .group = 64, .rounding = Rounding::toward_zero, .snap_log2 = -10}},
    {"fused35_rz", "64 products, dots of 16 aligned, 35 fraction bits; zero blocks weigh as their scales",
     "MMA-Sim 2511.10909 as of January 2026, Blackwell mxf4/nvf4", Evidence::modelled,
     {.kind = AccumulatorKind::aligned, .group = 64, .inner = 16, .fraction_bits = 35, .rounding = Rounding::toward_zero}},
    {"fused25_rz", "32 products aligned one by one, 25 fraction bits", "MMA-Sim 2511.10909 as of January 2026, mxf8f6f4", Evidence::modelled,
     {.kind = AccumulatorKind::aligned, .group = 32, .inner = 1, .fraction_bits = 25, .rounding = Rounding::toward_zero}},
    {"double", "fp64 loop, rounded once at the end", "reference loops", Evidence::defined, {.kind = AccumulatorKind::sequential_double}},
    {"fma_sequential", "acc = fma(a, b, acc)", "fp32 GEMM in natural order", Evidence::defined, {.kind = AccumulatorKind::fma}},
    {"fused35_rz_2026_08", "fused35_rz, but all zeros weigh 2^-139", "MMA-Sim 2511.10909 as of August 2026, Blackwell mxf4/nvf4", Evidence::modelled,
     {.kind = AccumulatorKind::aligned, .group = 64, .inner = 16, .fraction_bits = 35, .rounding = Rounding::toward_zero, .zero_exponent = -139}},
    {"fused25_rz_2026_08", "fused25_rz, but all zeros weigh 2^-133", "MMA-Sim 2511.10909 as of August 2026, mxf8f6f4", Evidence::modelled,
     {.kind = AccumulatorKind::aligned, .group = 32, .inner = 1, .fraction_bits = 25, .rounding = Rounding::toward_zero, .zero_exponent = -133}},
    {"hopper_fp8", "32 products aligned one by one, 13 fraction bits, sums of 13 bits (E8M13)", "wgmma of e4m3 and e5m2: 4000 words of an H200 (tools/probe); MMA-Sim 2511.10909 as of January 2026",
     Evidence::measured,
     {.kind = AccumulatorKind::aligned, .group = 32, .inner = 1, .fraction_bits = 13, .rounding = Rounding::toward_zero, .result_bits = 13, .unscaled = true}},
    {"cdna3_16bit", "8 products cut to 24 bits, their sum rounded down to 31, acc to 24", "MMA-Sim 2511.10909 as of January 2026, CDNA3 mfma f16, bf16",
     Evidence::modelled, {.kind = AccumulatorKind::floor_aligned, .group = 8, .unscaled = true}},
    {"cdna3_fp8", "16 products, even and odd apart, cut to 24 bits, their sum rounded down to 31, acc to 24",
     "MMA-Sim 2511.10909 as of January 2026, CDNA3 mfma fp8, bf8", Evidence::modelled,
     {.kind = AccumulatorKind::floor_aligned_pairs, .group = 16, .unscaled = true}},
    {"b200_nvf4", "64 products of FP4; dots of 4 cut 35 bits below the largest pair of scales, dots of 16 where the accumulator leads",
     "tcgen05.mma mxf4nvf4 on B200: sf-tensor/tcgen05 (July 2026), 2 of 46 paths of 10^6 words", Evidence::measured,
     {.kind = AccumulatorKind::windowed, .group = 64, .inner = 4, .fraction_bits = 39, .rounding = Rounding::toward_zero, .scale_bits = 35, .carried_bits = 35, .carried_inner = 16}},
    {"b200_mxf4", "64 products of FP4 in dots of 16, cut 35 bits below the largest pair of scales, or the accumulator where it outranks the dot",
     "tcgen05.mma mxf4, mxf4nvf4 with UE8M0 on B200: sf-tensor/tcgen05 (July 2026), 6 of 46 paths of 10^6 words", Evidence::measured,
     {.kind = AccumulatorKind::windowed, .group = 64, .inner = 16, .fraction_bits = 39, .rounding = Rounding::toward_zero, .scale_bits = 35, .carried_bits = 35, .carried_inner = 16,
      .cuts_outranked = true, .subnormal_floor = -174}},
    {"b200_f8f6f4", "32 products of 4 to 8 bits aligned one by one, 25 fraction bits, with or without block scales",
     "tcgen05.mma f8f6f4, mxf8f6f4 on B200: sf-tensor/tcgen05 (July 2026), 22 of 46 paths of 10^6 words; modelled below 2^-133 under tiny scales (MMA-Sim, August 2026)", Evidence::measured,
     {.kind = AccumulatorKind::aligned, .group = 32, .inner = 1, .fraction_bits = 25, .rounding = Rounding::toward_zero, .zero_exponent = -133, .unscaled = true}},
    {"b200_16bit", "16 products of bf16 or fp16 aligned one by one, 25 fraction bits", "tcgen05.mma f16 on B200: sf-tensor/tcgen05 (July 2026), 4 of 46 paths of 10^6 words",
     Evidence::measured,
     {.kind = AccumulatorKind::aligned, .group = 16, .inner = 1, .fraction_bits = 25, .rounding = Rounding::toward_zero, .zero_exponent = -133, .unscaled = true}},
    {"b200_tf32", "8 products of fp32 cut to tf32, aligned one by one, 25 fraction bits", "tcgen05.mma tf32 on B200: sf-tensor/tcgen05 (July 2026), 2 of 46 paths of 10^6 words",
     Evidence::measured,
     {.kind = AccumulatorKind::aligned, .group = 8, .inner = 1, .fraction_bits = 25, .rounding = Rounding::toward_zero, .zero_exponent = -133, .unscaled = true, .tf32 = true}},
    {"b200_f16_d", "b200_f8f6f4 with sums in fp16, rounded to nearest even", "tcgen05.mma f8f6f4 with D in f16 on B200: sf-tensor/tcgen05 (July 2026), 2 of 46 paths of 10^6 words",
     Evidence::measured,
     {.kind = AccumulatorKind::aligned, .group = 32, .inner = 1, .fraction_bits = 25, .zero_exponent = -133, .unscaled = true, .is_half = true}},
    {"b200_16bit_f16_d", "b200_16bit with sums in fp16, rounded to nearest even", "tcgen05.mma f16 with D in f16: as b200_f16_d, which was measured", Evidence::modelled,
     {.kind = AccumulatorKind::aligned, .group = 16, .inner = 1, .fraction_bits = 25, .zero_exponent = -133, .unscaled = true, .is_half = true}},
    {"hopper_16bit", "16 products of bf16 or fp16 aligned one by one, 25 fraction bits", "mma.sync and wgmma of bf16 and f16: 8000 words of an H200 (tools/probe)", Evidence::measured,
     {.kind = AccumulatorKind::aligned, .group = 16, .inner = 1, .fraction_bits = 25, .rounding = Rounding::toward_zero, .zero_exponent = -133, .unscaled = true}},
    {"hopper_tf32", "8 products of fp32 cut to tf32, aligned one by one, 25 fraction bits", "mma.sync and wgmma of tf32: 4000 words of an H200 (tools/probe)", Evidence::measured,
     {.kind = AccumulatorKind::aligned, .group = 8, .inner = 1, .fraction_bits = 25, .rounding = Rounding::toward_zero, .zero_exponent = -133, .unscaled = true, .tf32 = true}},
    {"hopper_16bit_f16_d", "hopper_16bit with sums in fp16, rounded to nearest even", "mma.sync and wgmma of f16 with D in f16: 4000 words of an H200 (tools/probe)", Evidence::measured,
     {.kind = AccumulatorKind::aligned, .group = 16, .inner = 1, .fraction_bits = 25, .zero_exponent = -133, .unscaled = true, .is_half = true}},
    {"hopper_fp8_f16_d", "32 products aligned one by one, 13 fraction bits, sums in fp16, rounded to nearest even", "wgmma of e4m3 with D in f16: 2000 words of an H200 (tools/probe)", Evidence::measured,
     {.kind = AccumulatorKind::aligned, .group = 32, .inner = 1, .fraction_bits = 13, .unscaled = true, .is_half = true}},
    {"ada_fp8", "16 products aligned one by one, 13 fraction bits, sums of 13 bits (E8M13)", "MMA-Sim 2511.10909 as of January 2026, Ada Lovelace mma e4m3, e5m2", Evidence::modelled,
     {.kind = AccumulatorKind::aligned, .group = 16, .inner = 1, .fraction_bits = 13, .rounding = Rounding::toward_zero, .result_bits = 13, .unscaled = true}},
    {"ampere_16bit", "8 products of bf16 or fp16 aligned one by one, 24 fraction bits; Ada Lovelace as well", "MMA-Sim 2511.10909 as of January 2026, Ampere and Ada Lovelace mma",
     Evidence::modelled,
     {.kind = AccumulatorKind::aligned, .group = 8, .inner = 1, .fraction_bits = 24, .rounding = Rounding::toward_zero, .unscaled = true}},
    {"ampere_tf32", "4 products of fp32 cut to tf32, aligned one by one, 24 fraction bits; Ada Lovelace as well", "MMA-Sim 2511.10909 as of January 2026, Ampere and Ada Lovelace mma",
     Evidence::modelled,
     {.kind = AccumulatorKind::aligned, .group = 4, .inner = 1, .fraction_bits = 24, .rounding = Rounding::toward_zero, .unscaled = true, .tf32 = true}},
    {"cdna4_isa", "dots of blocks by fp32 fma, times the scales, added in fp32", "AMD CDNA4 ISA text, v_mfma_scale_f32_*_f8f6f4; no measured model of CDNA4 exists",
     Evidence::documented, {.kind = AccumulatorKind::fma_blocks, .group = 32}},
    {"int32_wrap", "integers of at most 8 bits in int32, modulo 2^32; a block's sum times its scales, added in fp32",
     "tcgen05.mma i8 on B200: sf-tensor/tcgen05 (July 2026); the scales are a kernel's", Evidence::measured, {.kind = AccumulatorKind::integer, .group = 32}},
    {"int32_clamp", "int32_wrap, but each sum of 32 products and what came before is clamped to int32",
     "tcgen05.mma i8 with .satfinite on B200: sf-tensor/tcgen05 (July 2026); the scales are a kernel's", Evidence::measured,
     {.kind = AccumulatorKind::integer, .group = 32, .clamps = true}},
};
// clang-format on

// Whether elements are listed values of -127 .. 127 steps, as int4 and s1p6 (int8) have them.
FP4_HD constexpr bool has_byte_steps(const FloatFormat& element) {
  return element.is_grid() && !element.has_micro() && element.code_bits() <= 8 && element.largest().significand < 128;
}

// Whether a row adds products of such operands. An operand that it does not take is refused, never summed another way.
FP4_HD constexpr bool takes(const Accumulator& row, bool has_scale, const FloatFormat& element) {
#if !FP4_DEVICE_CODE
  if (row.kind == AccumulatorKind::integer) return has_scale && has_byte_steps(element);
#endif
  if (has_scale) return true;
  switch (row.kind) {
    case AccumulatorKind::block:
    case AccumulatorKind::group:
    case AccumulatorKind::sequential:
    case AccumulatorKind::sequential_double:
    case AccumulatorKind::fma: return true;
    case AccumulatorKind::aligned:
    case AccumulatorKind::floor_aligned:
    case AccumulatorKind::floor_aligned_pairs: return row.unscaled && (element.code_bits() <= 16 || row.tf32);
    case AccumulatorKind::windowed:
    case AccumulatorKind::fma_blocks:
    case AccumulatorKind::integer: return false;
  }
  return false;
}

// Whether sums are fused multiply-adds of decoded values: `fma`, and blocks where an operand has none, so that every
// product is a block.
FP4_HD constexpr bool is_plain_fma(const Accumulator& row, bool a_has_scale, bool b_has_scale) {
  const bool has_blocks = a_has_scale && b_has_scale;
  return row.kind == AccumulatorKind::fma ||
         (row.kind == AccumulatorKind::block && !has_blocks && row.rounding == Rounding::nearest_even);
}

inline constexpr const Accumulator& fp32_block = accumulator_table[1].row;

}  // namespace fp4
