// Number formats as rows of data: everything else (exponent range, largest value, code of 1.0) is derived.
// Element and scale formats after OCP OFP8 1.0, OCP MX 1.0, NVIDIA's NVFP4 description, Graphcore 2509.17791
// (UE5M3) and 2609.02846 (UE5M3 with a reserved exponent); IEEE 754 for fp16/fp32.
//
//   code of a signed element:   | sign | exponent_bits | mantissa_bits |     magnitude code = all but the sign
//   code of a scale:                   | exponent_bits | mantissa_bits |     scales are magnitudes
//
// An element may also be a list of values (element_grid.h): then exponent_bits is 0, mantissa_bits is what a magnitude
// code takes (a whole code in lists of both signs), and the values come from `grid`.
#pragma once

#include <atomic>
#include <iterator>

#include "fp4/axis.h"
#include "fp4/element_grid.h"

namespace fp4 {

inline constexpr uint32_t no_code = 0xFFFFFFFFu;

struct FloatFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  bool is_signed = false;
  bool has_infinity = false;    // code largest_code + 1
  bool has_zero = true;         // false: code 0 is the power 2^-bias (E8M0)
  uint32_t largest_code = 0;    // magnitude code of the largest finite value
  uint32_t nan_code = no_code;  // the NaN that is written; any non-finite magnitude code but infinity reads as NaN
  bool overflows = false;       // beyond the largest value: to infinity (IEEE 754, 7.4), else the largest value
  const ElementGrid* grid = nullptr;

  // Kernels of a GPU never see a grid: its backend declines them.
  FP4_HD constexpr bool is_grid() const {
#if FP4_DEVICE_CODE
    return false;
#else
    return grid != nullptr;
#endif
  }
  FP4_HD constexpr bool has_micro() const { return is_grid() && grid->has_micro(); }
  FP4_HD constexpr int magnitude_code_bits() const { return exponent_bits + mantissa_bits; }
  FP4_HD constexpr int code_bits() const { return magnitude_code_bits() + (is_signed ? 1 : 0); }
  FP4_HD constexpr uint32_t sign_code() const { return is_signed ? 1u << magnitude_code_bits() : 0u; }
  FP4_HD constexpr uint32_t magnitude_mask() const { return (1u << magnitude_code_bits()) - 1u; }
  FP4_HD constexpr bool has_nan() const { return nan_code != no_code; }
  // Exponent of the smallest normal value; subnormals share it.
  FP4_HD constexpr int min_exponent() const { return has_zero ? 1 - bias : -bias; }
  // log2 of the smallest step: every finite value is an integer multiple of 2^quantum_log2.
  FP4_HD constexpr int quantum_log2() const { return is_grid() ? grid->quantum_log2 : min_exponent() - mantissa_bits; }
  // The code of +0.
  FP4_HD constexpr uint32_t zero_code() const { return is_grid() ? grid->zero_code : 0u; }
  // Whether a code is that of a negative number, or of -0.
  FP4_HD constexpr bool is_negative_code(uint32_t code) const {
    return is_grid() ? is_negative(grid->value[code & (sign_code() | magnitude_mask())]) : (code & sign_code()) != 0;
  }
  // The finite value of a magnitude code, exactly; its magnitude in a list of both signs.
  FP4_HD constexpr Magnitude value(uint32_t magnitude_code) const {
    if (is_grid()) {
      const int64_t steps = grid->steps[magnitude_code];
      return {static_cast<uint64_t>(steps < 0 ? -steps : steps), grid->quantum_log2, false};
    }
    const uint32_t field = magnitude_code >> mantissa_bits;
    const uint32_t fraction = magnitude_code & ((1u << mantissa_bits) - 1u);
    if (!has_zero)
      return {(uint64_t{1} << mantissa_bits) | fraction, static_cast<int>(field) - bias - mantissa_bits, false};
    if (field == 0) return {fraction, quantum_log2(), false};
    return {(uint64_t{1} << mantissa_bits) | fraction, static_cast<int>(field) - bias - mantissa_bits, false};
  }
  FP4_HD constexpr Magnitude largest() const { return value(largest_code); }
  FP4_HD constexpr int max_exponent() const { return largest().log2_floor(); }  // "emax" of OCP MX
  // The largest on that side of zero: another in lists of both signs.
  FP4_HD constexpr uint32_t largest_code_of(bool negative) const {
    if (!is_grid() || grid->is_signed || grid->has_micro()) return largest_code;
    return grid->by_magnitude[negative ? 1 : 0][grid->count[negative ? 1 : 0] - 1];
  }
  FP4_HD constexpr uint32_t infinity_code() const { return has_infinity ? largest_code + 1 : no_code; }
  FP4_HD constexpr bool is_finite_code(uint32_t code) const {
    if (is_grid()) return !is_nan(grid->value[code & magnitude_mask()]);
    return (code & magnitude_mask()) <= largest_code;
  }
  FP4_HD constexpr bool is_nan_code(uint32_t code) const {
    return !is_finite_code(code) && !(has_infinity && (code & magnitude_mask()) == infinity_code());
  }
};

// The format of a grid, which must outlive it.
constexpr FloatFormat grid_format(const ElementGrid& grid) {
  FloatFormat f;
  f.is_signed = grid.is_signed;
  f.mantissa_bits = grid.code_bits - (grid.is_signed ? 1 : 0);
  f.largest_code = grid.largest_code;
  f.grid = &grid;
  return f;
}

// Elements of the table, then those that a user describes: their numbers are given as they come (add_element).
enum class Element : uint16_t {
  e2m1,
  e1m2,
  e3m0,
  e2m3,
  e3m2,
  e4m3,
  e5m2,
  bf16,
  fp16,
  fp32,
  int4,
  int4_6,
  e2m1_no_subnormals,
  nf4,
  af4,
  e2m1_minus_5,
  e2m1_plus_5,
  s1p2,
  s1p3,
  s1p6,
  hif4,
  mx6,
  mx9
};
enum class Scale : uint8_t {
  e8m0,
  ue4m3,
  ue5m3,
  ue5m3_61440,
  ue5m3_122880,
  ue5m2,
  ue3m4,
  ue2m5,
  ue1m6,
  bf16,
  fp32,
  none,
  e6m2
};

struct ElementInfo {
  Element id;
  const char* name;
  const char* doc;
  const char* source;
  FloatFormat format;
};
struct ScaleInfo {
  Scale id;
  const char* name;
  const char* doc;
  const char* source;
  FloatFormat format;
};

inline constexpr ElementGrid hif4_grid =
    make_micro_grid(static_cast<int>(Element::s1p2), 4, s1p2_grid.value, {{8, 1}, {4, 1}});
inline constexpr ElementGrid mx6_grid =
    make_micro_grid(static_cast<int>(Element::s1p3), 5, s1p3_grid.value, {{2, 1}, {}});
inline constexpr ElementGrid mx9_grid =
    make_micro_grid(static_cast<int>(Element::s1p6), 8, s1p6_grid.value, {{2, 1}, {}});

// clang-format off
// bf16, fp16 and fp32 overflow, as every cast to them does; FP8 saturates (OFP8 1.0 has both modes, and MX takes this).
//                            exp man bias sign  inf    zero  largest     NaN  overflows
inline constexpr ElementInfo element_table[] = {
    {Element::e2m1, "e2m1", "FP4: 0 .5 1 1.5 2 3 4 6",          "OCP MX 1.0, 5.3.3",       {2, 1, 1, true, false, true, 0x7, no_code}},
    {Element::e1m2, "e1m2", "uniform FP4: 0 .25 .. 1.75",       "INT4-like grid, 2112.10769", {1, 2, 1, true, false, true, 0x7, no_code}},
    {Element::e3m0, "e3m0", "logarithmic FP4: 0, 2^-2 .. 2^4",  "2112.10769 (LUQ)",        {3, 0, 3, true, false, true, 0x7, no_code}},
    {Element::e2m3, "e2m3", "FP6 up to 7.5",                    "OCP MX 1.0, 5.3.2",       {2, 3, 1, true, false, true, 0x1F, no_code}},
    {Element::e3m2, "e3m2", "FP6 up to 28",                     "OCP MX 1.0, 5.3.2",       {3, 2, 3, true, false, true, 0x1F, no_code}},
    {Element::e4m3, "e4m3", "FP8 FN up to 448",                 "OCP OFP8 1.0",            {4, 3, 7, true, false, true, 0x7E, 0x7F}},
    {Element::e5m2, "e5m2", "FP8 IEEE-like up to 57344",        "OCP OFP8 1.0",            {5, 2, 15, true, true, true, 0x7B, 0x7F}},
    {Element::bf16, "bf16", "bfloat16",                         "OCP MX 1.0 (BF16)",       {8, 7, 127, true, true, true, 0x7F7F, 0x7FFF, true}},
    {Element::fp16, "fp16", "IEEE binary16",                    "IEEE 754",                {5, 10, 15, true, true, true, 0x7BFF, 0x7FFF, true}},
    {Element::fp32, "fp32", "IEEE binary32",                    "IEEE 754",                {8, 23, 127, true, true, true, 0x7F7FFFFF, canonical_nan_bits, true}},
    {Element::int4, "int4", "integers -7 .. 7, two's complement; -8 is not written", "INT4 of most kernels, 2603.28765", grid_format(int4_grid)},
    {Element::int4_6, "int4_6", "int4 times 6/7, the range of e2m1", "IF4 2603.28765", grid_format(int4_6_grid)},
    {Element::e2m1_no_subnormals, "e2m1_no_subnormals", "e2m1 whose code 1 reads as 0", "Tenstorrent", grid_format(e2m1_no_subnormals_grid)},
    {Element::nf4, "nf4", "NormalFloat: quantiles of a Gaussian in [-1, 1], 0 at code 7", "QLoRA 2305.14314", grid_format(nf4_grid)},
    {Element::af4, "af4", "AbnormalFloat: least absolute error of blocks of 64, 0 at code 7", "2306.06965", grid_format(af4_grid)},
    {Element::e2m1_minus_5, "e2m1_minus_5", "e2m1 whose code 8 is -5",    "RaZeR 2501.04052",        grid_format(e2m1_minus_5_grid)},
    {Element::e2m1_plus_5, "e2m1_plus_5", "e2m1 whose code 8 is 5",       "RaZeR 2501.04052",        grid_format(e2m1_plus_5_grid)},
    {Element::s1p2, "s1p2", "fixed point: 0 .25 .. 1.75",       "HiFloat4 2602.11287",     grid_format(s1p2_grid)},
    {Element::s1p3, "s1p3", "fixed point: 0 .125 .. 1.875",     "MX6 2302.08007",          grid_format(s1p3_grid)},
    {Element::s1p6, "s1p6", "fixed point: 0 1/64 .. 127/64",    "MX9 2302.08007",          grid_format(s1p6_grid)},
    {Element::hif4, "hif4", "s1p2 times 2^e, e of 1 bit per 8 plus 1 bit per 4 elements", "HiFloat4 2602.11287", grid_format(hif4_grid)},
    {Element::mx6, "mx6", "s1p3 times 2^e, e of 1 bit per 2 elements", "MX6 2302.08007",   grid_format(mx6_grid)},
    {Element::mx9, "mx9", "s1p6 times 2^e, e of 1 bit per 2 elements", "MX9 2302.08007",   grid_format(mx9_grid)},
};
inline constexpr ScaleInfo scale_table[] = {
    {Scale::e8m0, "e8m0", "2^-127 .. 2^127, no zero, NaN 0xFF",       "OCP MX 1.0, 5.4.1", {8, 0, 127, false, false, false, 0xFE, 0xFF}},
    {Scale::ue4m3, "ue4m3", "unsigned E4M3 up to 448, NaN 0x7F",      "NVFP4; OCP OFP8 1.0", {4, 3, 7, false, false, true, 0x7E, 0x7F}},
    {Scale::ue5m3, "ue5m3", "up to 114688, NaN 0xFF",                 "2509.17791",        {5, 3, 15, false, false, true, 0xFE, 0xFF}},
    {Scale::ue5m3_61440, "ue5m3_61440", "up to 61440, all-ones exponent reserved", "2609.02846", {5, 3, 15, false, false, true, 0xF7, 0xFF}},
    {Scale::ue5m3_122880, "ue5m3_122880", "up to 122880, every code finite", "third UE5M3 in use", {5, 3, 15, false, false, true, 0xFF, no_code}},
    {Scale::ue5m2, "ue5m2", "up to 114688, no NaN (study)",           "2505.19115",        {5, 2, 15, false, false, true, 0x7F, no_code}},
    {Scale::ue3m4, "ue3m4", "up to 31, no NaN (study)",               "2505.19115",        {3, 4, 3, false, false, true, 0x7F, no_code}},
    {Scale::ue2m5, "ue2m5", "up to 7.875, no NaN (study)",            "2505.19115",        {2, 5, 1, false, false, true, 0x7F, no_code}},
    {Scale::ue1m6, "ue1m6", "up to 3.96875, no NaN (study)",          "2505.19115",        {1, 6, 0, false, false, true, 0x7F, no_code}},
    {Scale::bf16, "bf16", "real scale, stored as float32",            "OCP MX 1.0 (BF16)", {8, 7, 127, false, false, true, 0x7F7F, 0x7FFF}},
    {Scale::fp32, "fp32", "real scale: the upper bound of better scale formats", "IEEE 754", {8, 23, 127, false, false, true, 0x7F7FFFFF, canonical_nan_bits}},
    {Scale::none, "none", "no scale: payload = x",                    "cast",              {0, 0, 0, false, false, true, 0, no_code}},
    {Scale::e6m2, "e6m2", "2^-48 .. 1.5*2^15, no zero, NaN 0xFF",     "HiFloat4 2602.11287", {6, 2, 48, false, false, false, 0xFE, 0xFF}},
};
// clang-format on
static_assert(ids_are_indices(element_table) && ids_are_indices(scale_table));

inline constexpr int named_elements = static_cast<int>(std::size(element_table));
constexpr bool is_named(Element id) { return static_cast<int>(id) < named_elements; }

// Elements that users describe, one after the other; what is there stays for the life of the process.
inline constexpr int most_custom_elements = 16384;
inline std::atomic<const ElementInfo*> custom_elements[most_custom_elements] = {};
inline const ElementInfo& custom_element(Element id) {
  return *custom_elements[static_cast<int>(id) - named_elements].load(std::memory_order_acquire);
}

constexpr const ElementInfo& info_of(Element id) {
  return is_named(id) ? row_of(element_table, id) : custom_element(id);
}
constexpr const FloatFormat& format_of(Element id) { return info_of(id).format; }
constexpr const FloatFormat& format_of(Scale id) { return row_of(scale_table, id).format; }
// Real scales are stored as float32 values, the others as one byte.
constexpr bool is_real(Scale id) { return id == Scale::bf16 || id == Scale::fp32; }

// Each row against its document: largest value and smallest step.
constexpr bool spans(const FloatFormat& f, double largest, int quantum_log2) {
  const Magnitude m = f.largest();
  double v = static_cast<double>(m.significand);
  for (int e = m.exponent; e > 0; --e) v *= 2;
  for (int e = m.exponent; e < 0; ++e) v /= 2;
  return v == largest && f.quantum_log2() == quantum_log2;
}
static_assert(spans(format_of(Element::e2m1), 6, -1) && spans(format_of(Element::e1m2), 1.75, -2));
static_assert(spans(format_of(Element::e3m0), 16, -2) && spans(format_of(Element::e2m3), 7.5, -3));
static_assert(spans(format_of(Element::e3m2), 28, -4) && spans(format_of(Element::e4m3), 448, -9));
static_assert(spans(format_of(Element::e5m2), 57344, -16) && spans(format_of(Element::fp16), 65504, -24));
static_assert(spans(format_of(Scale::e8m0), 0x1p127, -127) && spans(format_of(Scale::ue4m3), 448, -9));
static_assert(spans(format_of(Scale::ue5m3), 114688, -17) && spans(format_of(Scale::ue5m3_61440), 61440, -17));
static_assert(spans(format_of(Scale::ue5m3_122880), 122880, -17) && spans(format_of(Scale::ue5m2), 114688, -16));
static_assert(spans(format_of(Scale::ue3m4), 31, -6) && spans(format_of(Scale::ue2m5), 7.875, -5));
static_assert(spans(format_of(Scale::ue1m6), 3.96875, -5) && spans(format_of(Scale::e6m2), 49152, -50));
#if !FP4_DEVICE_CODE
static_assert(spans(format_of(Element::int4), 7, 0) && spans(format_of(Element::int4_6), 6, -24));
static_assert(spans(format_of(Element::e2m1_no_subnormals), 6, -1) && spans(format_of(Element::nf4), 1, -27));
static_assert(spans(format_of(Element::af4), 1, -28) && spans(format_of(Element::hif4), 7, -2));
static_assert(spans(format_of(Element::mx6), 3.75, -3) && spans(format_of(Element::mx9), 3.96875, -6));
#endif

}  // namespace fp4
