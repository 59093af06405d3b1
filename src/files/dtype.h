// Element types and shapes of tensors in files: names, widths, and sizes that cannot overflow.
// Words are those of safetensors (github.com/huggingface/safetensors, tensor.rs, `Dtype`) beside numpy's; both are
// accepted wherever a person writes one. Values of fp8/fp6/fp4 codes are the business of include/fp4, not of this file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fp4 {

using Shape = std::vector<std::uint64_t>;
inline Shape shape_of(int64_t rows, int64_t cols) { return {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)}; }

enum class Dtype : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f6_e2m3,
  f6_e3m2,
  f4_e2m1,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  boolean,
  c64,
};

// real: has float32 values (float64 after rounding). integer: read as codes or as values. code: read as codes only.
enum class DtypeKind : std::uint8_t { real, integer, code };

struct DtypeInfo {
  Dtype id;
  const char* name;         // our word, and that of --dtype: "bf16"
  const char* safetensors;  // "BF16"
  const char* numpy;  // what a .npy written with it says, without byte order: "u2" for bf16; "" = not storable there
  const char* numpy_name;  // "uint16"
  unsigned bits;           // of one element; under 8: packed, low bits first
  DtypeKind kind;
};

const std::vector<DtypeInfo>& dtype_table();
const DtypeInfo& info(Dtype dtype);

// "f32", "F32", "float32" or "<f4" -> Dtype::f32; Error with the accepted words otherwise. Bare "f4" is refused:
// float32 to numpy, a four-bit code to safetensors. `place` opens the message.
Dtype parse_dtype(std::string_view place, std::string_view word);

// "3x4", "3,4" or "(3, 4)" -> {3, 4}; "" and "()" -> {} (one element). Error on anything else.
Shape parse_shape(std::string_view place, std::string_view text);

// "(3, 4)", "(3,)", "()": as numpy prints it.
std::string shape_text(const Shape& shape);

// Elements and bytes of a dense tensor. Error when the product of the axes that are not 0 passes 2^63 - 1 (numpy
// refuses it too), when there are more than 64 axes (numpy's limit), or when packed elements do not fill whole bytes.
std::uint64_t element_count(std::string_view place, const Shape& shape);
std::uint64_t byte_count(std::string_view place, Dtype dtype, const Shape& shape);

// The matrix that every command sees: [product of the leading axes, last axis]; a scalar is [1, 1].
std::uint64_t matrix_rows(const Shape& shape);
std::uint64_t matrix_cols(const Shape& shape);

// Elements of a file to float32. float16 and bfloat16 widen exactly, bit for bit (signalling NaNs and
// payloads stay); float64 rounds to nearest even; integers of up to 24 bits are exact, wider ones round to nearest
// even. These are IEEE 754 interchange formats and C++ types; the project's own formats are decoded by include/fp4.

// float16 (1+5+10 bits, bias 15) -> the bits of the equal float32. Total: every pattern has an answer.
constexpr std::uint32_t f16_to_f32_bits(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  // Rebias by 112 = 127 - 15; exponent 31 (inf, NaN) needs another 112 to become 255.
  const std::uint32_t normal = (magnitude << 13) + (112u << 23) + (magnitude >= 0x7c00u ? 112u << 23 : 0u);
  // Subnormals count steps of 2^-24; a 10-bit integer converts exactly. No branches, so that loops vectorise.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude & 0x3ffu) * 0x1p-24f);
  return sign | (magnitude < 0x400u ? subnormal : normal);
}

// bfloat16 is the upper half of a float32.
constexpr std::uint32_t bf16_to_f32_bits(std::uint16_t bits) { return static_cast<std::uint32_t>(bits) << 16; }

// `count` elements, little endian, of a real or integer dtype -> float32. `elements` need not be aligned; it must not
// overlap `out`. Throws std::logic_error for codes, which callers refuse first.
void to_float32(Dtype dtype, const void* elements, std::size_t count, float* out);

// Reverses the bytes of each of `count` elements of `bytes_each` (1, 2, 4 or 8) bytes in place.
void swap_bytes(void* elements, std::size_t bytes_each, std::size_t count);

}  // namespace fp4
