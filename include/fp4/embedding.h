// Embedding tables: how a row is stored, and the sum of a bag of rows, bit by bit.
//   row    E numbers. Float and block formats are those of spec.h, blocks along the row. Integer rows carry a scale s
//   and
//          a bias b: x ~ s*code + b, rounded once to fp32 (FBGEMM's fused row-wise tables). They read and write
//          int8   s = fl((max - min)/255), b = min, both fp32; code = round((x - min) * fl(255/(max - min + 1e-8)))
//          int4   b = fp16(min), s = fp16(fl((max - b)/15)), 1 where that is 0 or has no finite reciprocal;
//                 code = round((x - b) * fl(1/s)), cut to 0 .. 15
//          with every operation of fp32 rounded to nearest even. A row with an element, a scale or a bias that is not
//          finite reads as NaN.
//   bag    the sum of the rows that a list of ids names, in one of three orders (bag_order_table).
#pragma once

#include "fp4/exact_sum.h"
#include "fp4/presets.h"

namespace fp4 {

enum class RowFormat : uint8_t { fp32, bf16, int8, int4, mxfp4, nvfp4, ue5m3 };

struct RowFormatInfo {
  RowFormat id;
  const char* name;
  const char* doc;
  const char* source;
  int integer_bits;  // of an integer row's codes; 0: `spec` says the row
  int beside_bytes;  // that a row carries beside codes and block scales
  QuantSpec spec;
};

// An integer row of E numbers has one scale and bias. NVFP4's tensor scale is one of the row: a table whose rows change
// one by one has no maximum that holds.
// clang-format off
inline constexpr RowFormatInfo row_format_table[] = {
    {RowFormat::fp32, "fp32", "single precision", "IEEE 754", 0, 0, {.element = Element::fp32, .scale = Scale::none}},
    {RowFormat::bf16, "bf16", "bfloat16", "bfloat16", 0, 0, {.element = Element::bf16, .scale = Scale::none}},
    {RowFormat::int8, "int8", "8 bits, fp32 scale and bias a row", "FBGEMM QuantUtils.cc (Fused8BitRowwise)", 8, 8, {}},
    {RowFormat::int4, "int4", "4 bits, fp16 scale and bias a row", "FBGEMM QuantUtils.cc (FusedNBitRowwise), 1911.02079", 4, 4, {}},
    {RowFormat::mxfp4, "mxfp4", "e2m1, e8m0 per 32", "OCP MX 1.0", 0, 0, mxfp4_spec},
    {RowFormat::nvfp4, "nvfp4", "e2m1, ue4m3 per 16, fp32 factor a row", "NVIDIA NVFP4, per-row factor as in FlashInfer", 0, 4,
     {.scale = Scale::ue4m3, .block = block_of_16, .scale_rule = ScaleRule::amax, .tensor_scale = TensorScale::row}},
    {RowFormat::ue5m3, "ue5m3", "e2m1, ue5m3 per 16", "2509.17791", 0, 0,
     {.scale = Scale::ue5m3, .block = block_of_16, .scale_rule = ScaleRule::amax}},
};
// clang-format on
static_assert(ids_are_indices(row_format_table));

constexpr bool is_integer_row(RowFormat f) { return row_of(row_format_table, f).integer_bits > 0; }

/// Bytes of a stored row of `cols` numbers, pads of the last block included: int8 of 64 are 72, mxfp4 34.
constexpr int64_t row_bytes(RowFormat f, int64_t cols) {
  const RowFormatInfo& row = row_of(row_format_table, f);
  if (row.integer_bits > 0) return (cols * row.integer_bits + 7) / 8 + row.beside_bytes;
  const BlockGeometry g = geometry_of(row.spec, 1, cols);
  return (g.padded_cols * format_of(row.spec.element).code_bits() + 7) / 8 + g.scale_cols + row.beside_bytes;
}

// ---- integer rows

struct IntegerRow {
  float scale = 0.0f;
  float bias = 0.0f;
  float inverse = 0.0f;  // codes are (x - bias) * inverse, rounded
};

/// What a row with these extremes carries, by the rules above; all NaN where one of it is not finite.
FP4_HD constexpr IntegerRow integer_row(int bits, float least, float largest) {
  constexpr IntegerRow none = {float_of(canonical_nan_bits), float_of(canonical_nan_bits), 0.0f};
  if (!is_finite(least) || !is_finite(largest)) return none;
  IntegerRow r;
  if (bits == 8) {
    const float range = largest - least;
    r = {range / 255.0f, least, 255.0f / (range + 1e-8f)};
  } else {
    const float top = static_cast<float>((1 << bits) - 1);
    r.bias = rounded_to_fp16(least);
    if (!is_finite(r.bias)) return none;
    const float range = largest - r.bias;
    if (!is_finite(range)) return none;
    r.scale = range == 0.0f ? 1.0f : rounded_to_fp16(range / top);
    if (!is_finite(r.scale)) return none;
    if (r.scale == 0.0f) r.scale = 1.0f;
    r.inverse = 1.0f / r.scale;
    if (!is_finite(r.inverse)) r.scale = r.inverse = 1.0f;
  }
  return is_finite(r.scale) && is_finite(r.bias) ? r : none;
}

/// The code of a finite x in its row; 0 in a row that reads as NaN.
FP4_HD constexpr uint32_t integer_code(int bits, const IntegerRow& row, float x, RoundingDraw how) {
  if (is_nan(row.scale)) return 0;
  const float t = (x - row.bias) * row.inverse;
  const uint32_t top = (1u << bits) - 1u;
  if (!(t > 0.0f)) return 0;
  if (t >= static_cast<float>(top)) return top;
  const GridPosition p = position_on_grid(exact_magnitude(t), 0);
  const auto whole = static_cast<uint32_t>(p.whole);
  return whole + (rounds_up(how.mode, p.rest, (whole & 1u) != 0, false, how.random_bits, how.random) ? 1u : 0u);
}

FP4_HD inline float integer_value(const IntegerRow& row, uint32_t code) {
  return canonical(__builtin_fmaf(row.scale, static_cast<float>(code), row.bias));
}

// ---- sums

enum class BagOrder : uint8_t { sequential, fused, exact };

inline constexpr AxisRow<BagOrder> bag_order_table[] = {
    {BagOrder::sequential, "sequential", "acc = acc + x in fp32, in the order of the ids", "a loop over decoded rows"},
    {BagOrder::fused, "fused", "integer rows: acc = fma(s, code, acc + b); other rows as sequential",
     "FBGEMM EmbeddingSpMDM"},
    {BagOrder::exact, "exact", "integers as wide as need be, one rounding to fp32: the order does not count",
     "Kulisch; what a switch that adds in any order can promise"},
};
static_assert(ids_are_indices(bag_order_table));

/// One number of a bag's sum. It starts at +0, and an exact sum of 0 is +0. NaN where a row is NaN or infinities of
/// both signs meet; then canonical.
class BagSum {
 public:
  FP4_HD constexpr explicit BagSum(BagOrder order) : order_(order) {}

  /// The next row's decoded number.
  FP4_HD constexpr void add(float x) {
    if (order_ != BagOrder::exact || !is_finite(x)) {
      sum_ = sum_ + x;
    } else {
      exact_.add(x);
    }
  }
  /// The next row's number of an integer format.
  FP4_HD void add(const IntegerRow& row, uint32_t code) {
    if (order_ == BagOrder::fused) {
      sum_ = __builtin_fmaf(row.scale, static_cast<float>(code), sum_ + row.bias);
    } else {
      add(integer_value(row, code));
    }
  }
  FP4_HD constexpr float result() const {
    if (order_ != BagOrder::exact || !is_finite(sum_)) return canonical(sum_);
    return exact_.round(Rounding::nearest_even);
  }

 private:
  BagOrder order_;
  float sum_ = 0.0f;  // of the exact order: of what is not finite
  ExactSum exact_;
};

}  // namespace fp4
