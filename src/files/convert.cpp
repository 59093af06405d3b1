// Loops over the conversions of dtype.h, one per element type. memcpy loads keep unaligned input defined; g++ turns
// them into plain vector loads.
#include <cstring>
#include <stdexcept>

#include "src/files/dtype.h"

namespace fp4 {
namespace {

template <class Stored, class Convert>
void convert_all(const void* elements, std::size_t count, float* out, Convert convert) {
  const auto* bytes = static_cast<const unsigned char*>(elements);
  for (std::size_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, bytes + i * sizeof(Stored), sizeof(Stored));
    out[i] = convert(value);
  }
}

// The compiler's own conversions: nearest even in the default rounding mode, which the project never changes.
template <class Stored>
void cast_all(const void* elements, std::size_t count, float* out) {
  convert_all<Stored>(elements, count, out, [](Stored value) { return static_cast<float>(value); });
}

template <class Word, Word (*Reverse)(Word)>
void reverse_all(void* elements, std::size_t count) {
  auto* bytes = static_cast<unsigned char*>(elements);
  for (std::size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    word = Reverse(word);
    std::memcpy(bytes + i * sizeof(Word), &word, sizeof(Word));
  }
}

std::uint16_t reverse16(std::uint16_t word) { return __builtin_bswap16(word); }
std::uint32_t reverse32(std::uint32_t word) { return __builtin_bswap32(word); }
std::uint64_t reverse64(std::uint64_t word) { return __builtin_bswap64(word); }

}  // namespace

void to_float32(Dtype dtype, const void* elements, std::size_t count, float* out) {
  switch (dtype) {
    case Dtype::f32:
      if (count != 0) std::memcpy(out, elements, count * sizeof(float));
      return;
    case Dtype::f16:
      // Written through integers: a float copy may quieten a signalling NaN on some targets (x87).
      return convert_all<std::uint16_t>(elements, count, out,
                                        [](std::uint16_t bits) { return std::bit_cast<float>(f16_to_f32_bits(bits)); });
    case Dtype::bf16:
      return convert_all<std::uint16_t>(
          elements, count, out, [](std::uint16_t bits) { return std::bit_cast<float>(bf16_to_f32_bits(bits)); });
    case Dtype::f64: return cast_all<double>(elements, count, out);
    case Dtype::boolean:
      return convert_all<std::uint8_t>(elements, count, out, [](std::uint8_t byte) { return byte != 0 ? 1.0f : 0.0f; });
    case Dtype::u8: return cast_all<std::uint8_t>(elements, count, out);
    case Dtype::i8: return cast_all<std::int8_t>(elements, count, out);
    case Dtype::u16: return cast_all<std::uint16_t>(elements, count, out);
    case Dtype::i16: return cast_all<std::int16_t>(elements, count, out);
    case Dtype::u32: return cast_all<std::uint32_t>(elements, count, out);
    case Dtype::i32: return cast_all<std::int32_t>(elements, count, out);
    case Dtype::u64: return cast_all<std::uint64_t>(elements, count, out);
    case Dtype::i64: return cast_all<std::int64_t>(elements, count, out);
    case Dtype::f8_e4m3:
    case Dtype::f8_e5m2:
    case Dtype::f8_e8m0:
    case Dtype::f8_e4m3fnuz:
    case Dtype::f8_e5m2fnuz:
    case Dtype::f6_e2m3:
    case Dtype::f6_e3m2:
    case Dtype::f4_e2m1:
    case Dtype::c64: break;
  }
  throw std::logic_error("to_float32: the dtype holds codes");
}

void swap_bytes(void* elements, std::size_t bytes_each, std::size_t count) {
  if (bytes_each == 2) return reverse_all<std::uint16_t, reverse16>(elements, count);
  if (bytes_each == 4) return reverse_all<std::uint32_t, reverse32>(elements, count);
  if (bytes_each == 8) return reverse_all<std::uint64_t, reverse64>(elements, count);
  if (bytes_each != 1) throw std::logic_error("swap_bytes: elements of 1, 2, 4 or 8 bytes");
}

}  // namespace fp4
