// The table of element types, the arithmetic on shapes that untrusted headers go through first, and conversions.
#include "src/files/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "src/text/error.h"

namespace fp4 {

static_assert(std::endian::native == std::endian::little, "elements are copied between files and memory unswapped");

const std::vector<DtypeInfo>& dtype_table() {
  using enum DtypeKind;
  // clang-format off
  static const std::vector<DtypeInfo> table = {
      {Dtype::f64,         "f64",         "F64",         "f8", "float64",    64, real},
      {Dtype::f32,         "f32",         "F32",         "f4", "float32",    32, real},
      {Dtype::f16,         "f16",         "F16",         "f2", "float16",    16, real},
      {Dtype::bf16,        "bf16",        "BF16",        "u2", "bfloat16",   16, real},
      {Dtype::f8_e4m3,     "f8_e4m3",     "F8_E4M3",     "u1", "",            8, code},
      {Dtype::f8_e5m2,     "f8_e5m2",     "F8_E5M2",     "u1", "",            8, code},
      {Dtype::f8_e8m0,     "f8_e8m0",     "F8_E8M0",     "u1", "",            8, code},
      {Dtype::f8_e4m3fnuz, "f8_e4m3fnuz", "F8_E4M3FNUZ", "u1", "",            8, code},
      {Dtype::f8_e5m2fnuz, "f8_e5m2fnuz", "F8_E5M2FNUZ", "u1", "",            8, code},
      {Dtype::f6_e2m3,     "f6_e2m3",     "F6_E2M3",     "",   "",            6, code},
      {Dtype::f6_e3m2,     "f6_e3m2",     "F6_E3M2",     "",   "",            6, code},
      {Dtype::f4_e2m1,     "f4_e2m1",     "F4",          "",   "",            4, code},
      {Dtype::u8,          "u8",          "U8",          "u1", "uint8",       8, integer},
      {Dtype::i8,          "i8",          "I8",          "i1", "int8",        8, integer},
      {Dtype::u16,         "u16",         "U16",         "u2", "uint16",     16, integer},
      {Dtype::i16,         "i16",         "I16",         "i2", "int16",      16, integer},
      {Dtype::u32,         "u32",         "U32",         "u4", "uint32",     32, integer},
      {Dtype::i32,         "i32",         "I32",         "i4", "int32",      32, integer},
      {Dtype::u64,         "u64",         "U64",         "u8", "uint64",     64, integer},
      {Dtype::i64,         "i64",         "I64",         "i8", "int64",      64, integer},
      {Dtype::boolean,     "bool",        "BOOL",        "b1", "bool_",       8, integer},
      {Dtype::c64,         "c64",         "C64",         "c8", "complex64",  64, code},
  };
  // clang-format on
  for (std::size_t i = 0; i < table.size(); ++i)
    if (static_cast<std::size_t>(table[i].id) != i) throw std::logic_error("dtype_table: rows out of order");
  return table;
}

const DtypeInfo& info(Dtype dtype) {
  // One look at the table per process is enough for its order check.
  static const std::vector<DtypeInfo>& table = dtype_table();
  return table.at(static_cast<std::size_t>(dtype));
}

Dtype parse_dtype(std::string_view place, std::string_view word) {
  if (word == "f4" || word == "F4")
    throw Error(fmt::format("{}: '{}' is float32 to numpy and a four-bit code to safetensors; write float32 or f4_e2m1",
                            place, word));
  const bool typestring = word.size() == 3 && (word[0] == '<' || word[0] == '|');
  std::vector<std::string> accepted;
  for (const DtypeInfo& row : dtype_table()) {
    if (word == row.name || word == row.safetensors || (!word.empty() && word == row.numpy_name)) return row.id;
    // "<u2" and "|u1" mean the integers, which come after the float rows that borrow the same numpy type.
    const bool borrowed = row.kind == DtypeKind::code || row.id == Dtype::bf16;
    if (typestring && !borrowed && word.substr(1) == row.numpy) return row.id;
    accepted.emplace_back(row.name);
  }
  throw unknown_word(std::string(place) + ": dtype", word, accepted);
}

Shape parse_shape(std::string_view place, std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Error(fmt::format("{}: shape '{}': {}; write it as 128x64 or 128,64", place, text, why));
  };
  std::string_view rest = text;
  if (rest.starts_with('(') || rest.starts_with('[')) {
    const char closing = rest[0] == '(' ? ')' : ']';
    if (rest.back() != closing) throw bad("the bracket is not closed");
    rest = rest.substr(1, rest.size() - 2);
  }
  Shape shape;
  while (true) {
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    if (rest.empty()) break;  // also after a trailing comma, "(3,)"
    std::uint64_t extent = 0;
    const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
    if (failure == std::errc::result_out_of_range) throw bad("an axis passes 2^64");
    if (failure != std::errc()) throw bad("an axis is not a number");
    shape.push_back(extent);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    if (rest.empty()) break;
    if (rest[0] != 'x' && rest[0] != ',') throw bad(fmt::format("'{}' does not separate axes", rest[0]));
    if (rest[0] == 'x' && rest.size() == 1) throw bad("an axis is missing after 'x'");
    rest.remove_prefix(1);
  }
  element_count(place, shape);
  return shape;
}

namespace {

constexpr std::uint64_t kMaxElements = std::numeric_limits<std::int64_t>::max();

// The product of the axes that are not 0. It bounds every product of some of them, so that the rows of (2^40, 2^40, 0),
// which holds nothing, are refused as well.
std::uint64_t padded_count(std::string_view place, const Shape& shape) {
  constexpr std::size_t kMaxAxes = 64;
  if (shape.size() > kMaxAxes)
    throw Error(fmt::format("{}: {} axes; at most {} are accepted", place, shape.size(), kMaxAxes));
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) {
    if (extent != 0 && product > kMaxElements / extent)
      throw Error(fmt::format("{}: shape {} has more than 2^63 - 1 elements", place, shape_text(shape)));
    product *= std::max<std::uint64_t>(extent, 1);
  }
  // Loops over 2^62 rows without an element would not end.
  constexpr std::uint64_t kMaxEmpty = std::uint64_t{1} << 24;
  if (product > kMaxEmpty && std::find(shape.begin(), shape.end(), std::uint64_t{0}) != shape.end())
    throw Error(fmt::format("{}: shape {} holds nothing; at most 2^24 rows and columns are accepted then", place,
                            shape_text(shape)));
  return product;
}

// Loops over the conversions, one per element type. memcpy loads keep unaligned input defined; g++ turns them into
// plain vector loads.
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

std::string shape_text(const Shape& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

std::uint64_t element_count(std::string_view place, const Shape& shape) {
  padded_count(place, shape);
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) product *= extent;
  return product;
}

std::uint64_t byte_count(std::string_view place, Dtype dtype, const Shape& shape) {
  const DtypeInfo& type = info(dtype);
  if (padded_count(place, shape) > kMaxElements / type.bits)
    throw Error(fmt::format("{}: shape {} of {} passes 2^63 - 1 bits", place, shape_text(shape), type.name));
  const std::uint64_t elements = element_count(place, shape), bits = elements * type.bits;
  if (bits % 8 != 0)
    throw Error(
        fmt::format("{}: {} elements of {} bits ({}) do not fill whole bytes", place, elements, type.bits, type.name));
  return bits / 8;
}

std::uint64_t matrix_rows(const Shape& shape) {
  std::uint64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

std::uint64_t matrix_cols(const Shape& shape) { return shape.empty() ? 1 : shape.back(); }

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
