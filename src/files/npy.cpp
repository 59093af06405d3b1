// Header of .npy files, both ways. The dictionary is read by a small grammar of its own (the literals that numpy's
// writer can produce), never evaluated; every number is bounded before it is used.
#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "src/files/stored_array.h"
#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
// The longest honest header (64 axes of 20 digits) has 1.5 KB; version 1.0 cannot say more than this.
constexpr std::uint64_t kMaxNpyHeader = 65535;

// The dictionary, e.g. {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class Dictionary {
 public:
  Dictionary(const std::string& file, std::string_view text) : file_(file), text_(text) {}

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;

  void parse() {
    expect('{');
    while (!accept('}')) {
      const std::string key = string_literal();
      expect(':');
      if (key == "descr")
        once(key, descr, descr_literal());
      else if (key == "fortran_order")
        once(key, fortran_order, bool_literal());
      else if (key == "shape")
        once(key, shape, shape_literal());
      else
        throw unknown_word(file_ + ": header key", key, {"descr", "fortran_order", "shape"});
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) throw bad("text after the dictionary");
    if (!descr) throw bad("the key 'descr' is missing");
    if (!fortran_order) throw bad("the key 'fortran_order' is missing");
    if (!shape) throw bad("the key 'shape' is missing");
  }

 private:
  Error bad(std::string_view what) const {
    return Error(fmt::format("{}: .npy header, character {}: {}", file_, at_, what));
  }
  template <class Value>
  void once(std::string_view key, std::optional<Value>& slot, Value value) {
    if (slot) throw bad(fmt::format("the key '{}' appears twice", key));
    slot = std::move(value);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool accept(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) throw bad(fmt::format("'{}' expected", wanted));
  }
  // No escapes: no supported descr has one.
  std::string string_literal() {
    skip_space();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) throw bad("a quoted word expected");
    const char quote = text_[at_++];
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos || end - at_ > 64) throw bad("a quoted word without end");
    std::string word(text_.substr(at_, end - at_));
    for (const char c : word)
      if (c < ' ' || c > '~' || c == '\\') throw bad("a quoted word with characters that no key or type has");
    at_ = end + 1;
    return word;
  }
  std::string descr_literal() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') throw bad("descr is a structured type; plain numbers are accepted");
    return string_literal();
  }
  bool bool_literal() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    throw bad("fortran_order is neither True nor False");
  }
  std::uint64_t number() {
    skip_space();
    std::uint64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, failure] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (failure == std::errc::invalid_argument) throw bad("an axis is not a number of 0 or more");
    const std::string_view digits(begin, static_cast<std::size_t>(end - begin));
    if (failure != std::errc()) throw bad(fmt::format("the axis {} passes 2^64", digits.substr(0, 40)));
    at_ += digits.size();
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // a long integer as Python 2 wrote it
    return value;
  }
  Shape shape_literal() {
    expect('(');
    Shape axes;
    while (!accept(')')) {
      axes.push_back(number());
      // (3) without its comma is a number to Python, not a shape.
      if (!accept(',')) {
        if (axes.size() == 1) throw bad("',' expected");
        expect(')');
        break;
      }
    }
    return axes;
  }

  const std::string& file_;
  std::string_view text_;
  std::size_t at_ = 0;
};

// numpy's one-letter words and other names of the types of a table (numpy.dtype of a 64-bit machine).
constexpr std::pair<std::string_view, std::string_view> other_words[] = {
    {"f", "f4"}, {"d", "f8"},    {"e", "f2"},      {"F", "c8"},      {"?", "b1"},     {"b", "i1"},   {"B", "u1"},
    {"h", "i2"}, {"H", "u2"},    {"i", "i4"},      {"I", "u4"},      {"l", "i8"},     {"L", "u8"},   {"q", "i8"},
    {"Q", "u8"}, {"half", "f2"}, {"single", "f4"}, {"double", "f8"}, {"float", "f8"}, {"bool", "b1"}};

// '<f4', '>f8', '|u1', 'f4', 'float32' ..., as numpy.dtype() reads them: without a byte order it is the machine's.
void apply_descr(const std::string& file, const std::string& descr, StoredArray& array) {
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  std::string_view type = std::string_view(descr).substr(has_order ? 1 : 0);
  for (const auto& [word, meaning] : other_words)
    if (type == word && (word.size() == 1 || !has_order)) type = meaning;
  std::optional<Dtype> found;
  if (type == "V1") found = Dtype::u8;
  if (type == "V2") found = Dtype::u16;
  if (found) array.opaque = descr;
  std::string accepted;
  for (const DtypeInfo& row : dtype_table()) {
    const bool borrowed = row.id == Dtype::bf16 || (row.kind == DtypeKind::code && row.id != Dtype::c64);
    if (borrowed) continue;
    if (type == row.numpy || (!has_order && type == row.numpy_name)) found = row.id;
    add_word(accepted, row.numpy);
  }
  if (!found) throw Error(fmt::format("{}: type '{}' is not supported; accepted: {}", file, descr, accepted));
  array.dtype = *found;
  array.big_endian = descr[0] == '>' && info(*found).bits > 8;
  if (array.big_endian) array.notes.push_back(fmt::format("{}: big endian, converted", file));
}

}  // namespace

StoredArray parse_npy(Bytes bytes) {
  const std::string& file = bytes->name();
  unsigned char start[12] = {};
  if (bytes->size() < 10) throw Error(fmt::format("{}: {} bytes cannot hold a .npy header", file, bytes->size()));
  bytes->read(0, start, 10);
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0)
    throw Error(
        fmt::format("{}: not a .npy file: it starts with {:02x} {:02x} {:02x} {:02x} {:02x} {:02x}, not \\x93NUMPY",
                    file, start[0], start[1], start[2], start[3], start[4], start[5]));
  const unsigned major = start[6], minor = start[7];
  if (major < 1 || major > 3 || minor != 0)
    throw Error(fmt::format("{}: .npy version {}.{}; accepted: 1.0, 2.0, 3.0", file, major, minor));
  const std::uint64_t prefix = major == 1 ? 10 : 12;
  bytes->read(0, start, static_cast<std::size_t>(prefix));
  std::uint64_t length = start[8] | static_cast<std::uint64_t>(start[9]) << 8;
  if (major > 1) length |= static_cast<std::uint64_t>(start[10]) << 16 | static_cast<std::uint64_t>(start[11]) << 24;
  if (length > kMaxNpyHeader)
    throw Error(
        fmt::format("{}: the .npy header claims {} bytes; at most {} are accepted", file, length, kMaxNpyHeader));
  std::string text(static_cast<std::size_t>(length), '\0');
  bytes->read(prefix, text.data(), text.size());

  Dictionary dictionary(file, text);
  dictionary.parse();
  StoredArray array{.bytes = bytes, .offset = prefix + length};
  apply_descr(file, *dictionary.descr, array);
  array.shape = *dictionary.shape;
  array.fortran_order = *dictionary.fortran_order;
  const std::uint64_t wanted = byte_count(file, array.dtype, array.shape);
  const std::uint64_t present = bytes->size() - array.offset;
  if (wanted != present)
    throw Error(fmt::format("{}: {}: shape {} of {} needs {} bytes, {} follow the header", file,
                            wanted > present ? "truncated" : "bytes left over", shape_text(array.shape),
                            info(array.dtype).name, wanted, present));
  return array;
}

std::string npy_header(Dtype dtype, const Shape& shape) {
  const DtypeInfo& type = info(dtype);
  if (*type.numpy == '\0') throw Error(fmt::format(".npy: no type for packed {}; write unpacked uint8", type.name));
  byte_count(".npy", dtype, shape);
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}",
                                 type.bits == 8 ? '|' : '<', type.numpy, shape_text(shape));
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace fp4
