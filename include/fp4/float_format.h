// Number formats as rows of data: everything else (exponent range, largest value, code of 1.0) is derived.
// Element and scale formats after OCP OFP8 1.0, OCP MX 1.0, NVIDIA's NVFP4 description, Graphcore 2509.17791
// (UE5M3) and 2609.02846 (UE5M3 with a reserved exponent); IEEE 754 for fp16/fp32.
//
//   code of a signed element:   | sign | exponent_bits | mantissa_bits |     magnitude code = all but the sign
//   code of a scale:                   | exponent_bits | mantissa_bits |     scales are magnitudes
#pragma once

#include "fp4/axis.h"
#include "fp4/bits.h"

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

  FP4_HD constexpr int magnitude_code_bits() const { return exponent_bits + mantissa_bits; }
  FP4_HD constexpr int code_bits() const { return magnitude_code_bits() + (is_signed ? 1 : 0); }
  FP4_HD constexpr uint32_t sign_code() const { return is_signed ? 1u << magnitude_code_bits() : 0u; }
  FP4_HD constexpr uint32_t magnitude_mask() const { return (1u << magnitude_code_bits()) - 1u; }
  FP4_HD constexpr bool has_nan() const { return nan_code != no_code; }
  // Exponent of the smallest normal value; subnormals share it.
  FP4_HD constexpr int min_exponent() const { return has_zero ? 1 - bias : -bias; }
  // log2 of the smallest step: every finite value is an integer multiple of 2^quantum_log2.
  FP4_HD constexpr int quantum_log2() const { return min_exponent() - mantissa_bits; }
  // The finite value of a magnitude code, exactly.
  FP4_HD constexpr Magnitude value(uint32_t magnitude_code) const {
    const uint32_t field = magnitude_code >> mantissa_bits;
    const uint32_t fraction = magnitude_code & ((1u << mantissa_bits) - 1u);
    if (!has_zero)
      return {(uint64_t{1} << mantissa_bits) | fraction, static_cast<int>(field) - bias - mantissa_bits, false};
    if (field == 0) return {fraction, quantum_log2(), false};
    return {(uint64_t{1} << mantissa_bits) | fraction, static_cast<int>(field) - bias - mantissa_bits, false};
  }
  FP4_HD constexpr Magnitude largest() const { return value(largest_code); }
  FP4_HD constexpr int max_exponent() const { return largest().log2_floor(); }  // "emax" of OCP MX
  FP4_HD constexpr uint32_t infinity_code() const { return has_infinity ? largest_code + 1 : no_code; }
  FP4_HD constexpr bool is_finite_code(uint32_t code) const { return (code & magnitude_mask()) <= largest_code; }
  FP4_HD constexpr bool is_nan_code(uint32_t code) const {
    return !is_finite_code(code) && !(has_infinity && (code & magnitude_mask()) == infinity_code());
  }
};

enum class Element : uint8_t { e2m1, e1m2, e3m0, e2m3, e3m2, e4m3, e5m2, bf16, fp16, fp32 };
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
  none
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
};
// clang-format on
static_assert(ids_are_indices(element_table) && ids_are_indices(scale_table));

constexpr const FloatFormat& format_of(Element id) { return row_of(element_table, id).format; }
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
static_assert(spans(format_of(Scale::ue1m6), 3.96875, -5));

}  // namespace fp4
