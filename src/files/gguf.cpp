#include "src/files/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

// Numbers of ggml.h (enum ggml_type) and sizes of ggml-common.h. Of rows with GgufValues::none only the size is known.
const std::vector<GgufType> kTypes = {
    {0, "F32", 1, 4, GgufValues::plain, Dtype::f32},       {1, "F16", 1, 2, GgufValues::plain, Dtype::f16},
    {2, "Q4_0", 32, 18, GgufValues::none, Dtype::u8},      {3, "Q4_1", 32, 20, GgufValues::none, Dtype::u8},
    {6, "Q5_0", 32, 22, GgufValues::none, Dtype::u8},      {7, "Q5_1", 32, 24, GgufValues::none, Dtype::u8},
    {8, "Q8_0", 32, 34, GgufValues::q8_0, Dtype::u8},      {9, "Q8_1", 32, 36, GgufValues::none, Dtype::u8},
    {10, "Q2_K", 256, 84, GgufValues::none, Dtype::u8},    {11, "Q3_K", 256, 110, GgufValues::none, Dtype::u8},
    {12, "Q4_K", 256, 144, GgufValues::none, Dtype::u8},   {13, "Q5_K", 256, 176, GgufValues::none, Dtype::u8},
    {14, "Q6_K", 256, 210, GgufValues::none, Dtype::u8},   {15, "Q8_K", 256, 292, GgufValues::none, Dtype::u8},
    {16, "IQ2_XXS", 256, 66, GgufValues::none, Dtype::u8}, {17, "IQ2_XS", 256, 74, GgufValues::none, Dtype::u8},
    {18, "IQ3_XXS", 256, 98, GgufValues::none, Dtype::u8}, {19, "IQ1_S", 256, 50, GgufValues::none, Dtype::u8},
    {20, "IQ4_NL", 32, 18, GgufValues::none, Dtype::u8},   {21, "IQ3_S", 256, 110, GgufValues::none, Dtype::u8},
    {22, "IQ2_S", 256, 82, GgufValues::none, Dtype::u8},   {23, "IQ4_XS", 256, 136, GgufValues::none, Dtype::u8},
    {24, "I8", 1, 1, GgufValues::plain, Dtype::i8},        {25, "I16", 1, 2, GgufValues::plain, Dtype::i16},
    {26, "I32", 1, 4, GgufValues::plain, Dtype::i32},      {27, "I64", 1, 8, GgufValues::plain, Dtype::i64},
    {28, "F64", 1, 8, GgufValues::plain, Dtype::f64},      {29, "IQ1_M", 256, 56, GgufValues::none, Dtype::u8},
    {30, "BF16", 1, 2, GgufValues::plain, Dtype::bf16},    {34, "TQ1_0", 256, 54, GgufValues::none, Dtype::u8},
    {35, "TQ2_0", 256, 66, GgufValues::none, Dtype::u8},   {39, "MXFP4", 32, 17, GgufValues::mxfp4, Dtype::u8},
    {40, "NVFP4", 64, 36, GgufValues::nvfp4, Dtype::u8},   {41, "Q1_0", 128, 18, GgufValues::none, Dtype::u8},
};
constexpr std::uint64_t kMaxEntries = 1'000'000, kMaxText = 1 << 26;

// The header, front to back.
class Cursor {
 public:
  explicit Cursor(const Bytes& bytes) : bytes_(bytes) {}

  std::uint64_t word(unsigned width) {
    std::uint64_t value = 0;
    read(&value, width);
    return value;
  }
  std::string text() {
    const std::uint64_t length = word(8);
    if (length > kMaxText) fail(fmt::format("a text of {} bytes", length));
    need(length);
    std::string out(static_cast<std::size_t>(length), '\0');
    read(out.data(), out.size());
    return out;
  }
  // Passes a metadata value of type `type` (gguf.md: 0 u8, 1 i8, 2 u16, .. 8 string, 9 array, .. 12 f64).
  void skip(std::uint64_t type) {
    static constexpr unsigned widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type >= std::size(widths)) fail(fmt::format("metadata of type {}; known are 0 to 12", type));
    if (type == 8) {
      static_cast<void>(text());
      return;
    }
    if (type != 9) return jump(widths[type]);
    const std::uint64_t item = word(4), count = word(8);
    if (item == 9) fail("a list of lists, which ggml refuses");
    if (item < std::size(widths) && item != 8) {
      if (count > bytes_->size()) fail(fmt::format("a list of {} numbers", count));
      return jump(count * widths[item]);
    }
    for (std::uint64_t i = 0; i < count; ++i) skip(item);
  }
  std::uint64_t position() const { return at_; }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(fmt::format("{}: not a GGUF file, or damaged, at byte {}: {}", bytes_->name(), at_, why));
  }

 private:
  void need(std::uint64_t count) const {
    if (count > bytes_->size() - at_) fail(fmt::format("{} bytes are needed, {} follow", count, bytes_->size() - at_));
  }
  void jump(std::uint64_t count) {
    need(count);
    at_ += count;
  }
  void read(void* out, std::size_t count) {
    need(count);
    // Headers are read in pieces of 64 KB: token lists have 100,000 short texts.
    if (at_ < held_at_ || at_ + count > held_at_ + held_.size()) {
      held_.resize(static_cast<std::size_t>(
          std::min<std::uint64_t>(std::max<std::uint64_t>(count, 1 << 16), bytes_->size() - at_)));
      held_at_ = at_;
      bytes_->read(at_, held_.data(), held_.size());
    }
    std::memcpy(out, held_.data() + (at_ - held_at_), count);
    at_ += count;
  }

  Bytes bytes_;
  std::uint64_t at_ = 0, held_at_ = 0;
  std::vector<unsigned char> held_ = {};
};

const GgufType& type_of(const Cursor& cursor, const std::string& tensor, std::uint64_t id) {
  for (const GgufType& type : kTypes)
    if (type.id == id) return type;
  std::string known;
  for (const GgufType& type : kTypes) add_word(known, fmt::format("{} {}", type.id, type.name));
  cursor.fail(fmt::format("tensor '{}' has type {}; known are {}", tensor, id, known));
}

struct Front {
  std::uint64_t tensors = 0, begin = 0, end = 0;  // bytes of the entries
  GgufMetadata m = {};                            // without the entries
};

Front front_of(Cursor& cursor) {
  Front f;
  if (cursor.word(4) != 0x46554747) cursor.fail("it does not begin with GGUF");
  if (const std::uint64_t version = cursor.word(4); version != 2 && version != 3)
    cursor.fail(fmt::format("version {}; 2 and 3 of little-endian files are known", version));
  f.tensors = cursor.word(8);
  f.m.count = cursor.word(8);
  if (f.tensors > kMaxEntries || f.m.count > kMaxEntries)
    cursor.fail(fmt::format("{} tensors and {} entries", f.tensors, f.m.count));
  f.begin = cursor.position();
  std::unordered_set<std::string> keys;
  for (std::uint64_t i = 0; i < f.m.count; ++i) {
    const std::string key = cursor.text();
    if (key.empty()) cursor.fail(fmt::format("entry {} has an empty key", i));
    if (!keys.insert(key).second) cursor.fail(fmt::format("the key '{}' appears twice", key));
    const std::uint64_t type = cursor.word(4);
    f.m.has_version |= key == "general.quantization_version";
    if ((key == "general.alignment" || key == "general.file_type") && type != 4)
      cursor.fail(fmt::format("{} is of type {}; ggml takes 4, u32, alone", key, type));
    if (key == "general.file_type") f.m.file_type = cursor.position() - f.begin;
    if (key == "general.alignment")
      f.m.alignment = cursor.word(4);
    else
      cursor.skip(type);
  }
  f.end = cursor.position();
  if (f.m.alignment == 0 || (f.m.alignment & (f.m.alignment - 1)) != 0)
    cursor.fail(fmt::format("general.alignment is {}, no power of two", f.m.alignment));
  return f;
}

}  // namespace

const std::vector<GgufType>& gguf_types() { return kTypes; }

GgufMetadata metadata_of(const Bytes& bytes) {
  Cursor cursor(bytes);
  Front f = front_of(cursor);
  f.m.entries.resize(static_cast<std::size_t>(f.end - f.begin));
  bytes->read(f.begin, f.m.entries.data(), f.m.entries.size());
  return std::move(f.m);
}

std::vector<std::pair<std::string, std::string>> entries_of(const Bytes& bytes) {
  Cursor checked(bytes);
  std::uint64_t left = front_of(checked).m.count;
  Cursor cursor(bytes);
  for (int i = 0; i < 3; ++i) static_cast<void>(cursor.word(8));  // in front of the entries
  std::vector<std::pair<std::string, std::string>> entries;
  for (; left > 0; --left) {
    std::string key = cursor.text();
    const std::uint64_t begin = cursor.position();
    cursor.skip(cursor.word(4));
    std::string value(static_cast<std::size_t>(cursor.position() - begin), '\0');
    bytes->read(begin, value.data(), value.size());
    entries.emplace_back(std::move(key), std::move(value));
  }
  return entries;
}

std::vector<GgufTensor> list_gguf(const Bytes& bytes) {
  Cursor cursor(bytes);
  const Front front = front_of(cursor);
  const std::uint64_t tensors = front.tensors, alignment = front.m.alignment;
  const auto padded = [&](std::uint64_t n) { return (n + alignment - 1) / alignment * alignment; };
  std::vector<GgufTensor> list;
  std::unordered_set<std::string> names;
  std::uint64_t end = 0;  // of the tensors so far; ggml wants them one behind the other, each padded
  for (std::uint64_t i = 0; i < tensors; ++i) {
    GgufTensor t;
    t.name = cursor.text();
    if (t.name.size() > ggml_longest_name || t.name.find('\0') != std::string::npos)
      cursor.fail(
          fmt::format("the name '{:.80}' of tensor {} has {} bytes; ggml reads names of up to {} without a zero byte",
                      t.name.c_str(), i, t.name.size(), ggml_longest_name));
    if (!names.insert(t.name).second) cursor.fail(fmt::format("the tensor '{}' appears twice", t.name));
    const std::uint64_t axes = cursor.word(4);
    if (axes > ggml_most_axes)
      cursor.fail(fmt::format("tensor '{}' has {} axes; ggml reads up to {}", t.name, axes, ggml_most_axes));
    for (std::uint64_t axis = 0; axis < axes; ++axis) t.shape.insert(t.shape.begin(), cursor.word(8));
    t.type = &type_of(cursor, t.name, cursor.word(4));
    t.offset = cursor.word(8);
    if (t.offset != end)
      cursor.fail(fmt::format("tensor '{}' lies at {}, the one before it ends at {}: {}", t.name, t.offset, end,
                              t.offset < end ? "they overlap" : "a hole"));
    const std::uint64_t count = element_count(bytes->name() + ": " + t.name, t.shape);
    if (matrix_cols(t.shape) % t.type->block != 0)
      cursor.fail(fmt::format("tensor '{}': rows of {} elements are no multiple of {}'s blocks of {}", t.name,
                              matrix_cols(t.shape), t.type->name, t.type->block));
    if (count / 8 > bytes->size() || end > bytes->size())  // no type takes less than a bit
      throw Error(fmt::format("{}: truncated: tensor '{}' has {} elements from offset {} on, the file {} bytes",
                              bytes->name(), t.name, count, end, bytes->size()));
    t.bytes = count / t.type->block * t.type->bytes;
    end += padded(t.bytes);
    list.push_back(t);
  }
  const std::uint64_t data = padded(cursor.position());
  for (GgufTensor& t : list) {
    t.offset += data;
    if (t.offset + padded(t.bytes) > bytes->size())
      throw Error(fmt::format("{}: truncated: tensor '{}' needs bytes {} to {} with its padding, the file has {}",
                              bytes->name(), t.name, t.offset, t.offset + padded(t.bytes), bytes->size()));
  }
  return list;
}

}  // namespace fp4
