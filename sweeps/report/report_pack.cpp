// Columns, dictionaries and byte planes; see report_pack.h for the layout.
#include "sweeps/report/report_pack.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

void append_little_endian(std::string& out, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

bool is_hash(const std::string& word) {
  return word.size() == 16 && word.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool is_exactly_float(double value) {
  return std::isnan(value) || (std::abs(value) <= std::numeric_limits<float>::max() &&
                               static_cast<double>(static_cast<float>(value)) == value);
}

// Numbers the keys in their order, the first one `next`: the dictionary of a column.
template <class Key>
nlohmann::json numbered(std::map<Key, std::uint32_t>& code_of, std::uint32_t next) {
  nlohmann::json dictionary = nlohmann::json::array();
  for (auto& [key, code] : code_of) {
    code = next++;
    dictionary.push_back(key);
  }
  return dictionary;
}

}  // namespace

void ColumnPack::table(const std::string& name, std::size_t rows) {
  current_ = name;
  tables_[name] = {{"rows", rows}, {"columns", nlohmann::json::object()}};
}

nlohmann::json& ColumnPack::column(const std::string& name, const char* kind) {
  nlohmann::json& place = tables_[current_]["columns"][name];
  place["kind"] = kind;
  return place;
}

void ColumnPack::planes(nlohmann::json& place, std::string_view rows, std::size_t width) {
  place["at"] = sections_.size();
  place["width"] = width;
  const std::size_t count = rows.size() / width;
  place["count"] = count;
  for (std::size_t plane = 0; plane < width; ++plane)
    for (std::size_t row = 0; row < count; ++row) sections_.push_back(rows[row * width + plane]);
}

void ColumnPack::codes(const std::string& name, const char* kind, const std::vector<std::uint32_t>& codes,
                       nlohmann::json dictionary, std::size_t first) {
  const std::size_t size = dictionary.size() + first, width = size <= 0x100 ? 1 : size <= 0x10000 ? 2 : 4;
  std::string bytes;
  bytes.reserve(codes.size() * width);
  for (const std::uint32_t code : codes) append_little_endian(bytes, code, width);
  nlohmann::json& place = column(name, kind);
  planes(place, bytes, width);
  place["values"] = std::move(dictionary);
}

void ColumnPack::words(const std::string& name, const std::vector<std::string>& values) {
  std::map<std::string_view, std::uint32_t> code_of;
  for (const std::string& value : values) code_of.emplace(value, 0);
  nlohmann::json dictionary = numbered(code_of, 0);
  std::vector<std::uint32_t> row_codes;
  row_codes.reserve(values.size());
  for (const std::string& value : values) row_codes.push_back(code_of[value]);
  codes(name, "words", row_codes, std::move(dictionary));
}

void ColumnPack::numbers(const std::string& name, const std::vector<double>& values) {
  // Ordered by bit pattern, so that -0 and 0 stay two values and every NaN is one.
  std::map<std::uint64_t, std::uint32_t> code_of;
  const auto key = [](double value) {
    return std::bit_cast<std::uint64_t>(std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
  };
  bool all_float = true;
  bool all_finite = true;
  for (const double value : values) {
    code_of.emplace(key(value), 0);
    all_float = all_float && is_exactly_float(value);
    all_finite = all_finite && !std::isinf(value);
  }
  // JSON has no infinity; and a dictionary that is hardly shorter than the column only adds to it.
  if (all_finite && code_of.size() <= std::max<std::size_t>(values.size() / 4, 16)) {
    nlohmann::json dictionary = numbered(code_of, 0);
    for (nlohmann::json& bits : dictionary) {
      const auto value = std::bit_cast<double>(bits.get<std::uint64_t>());
      bits = std::isnan(value) ? nlohmann::json() : nlohmann::json(value);
    }
    std::vector<std::uint32_t> row_codes;
    row_codes.reserve(values.size());
    for (const double value : values) row_codes.push_back(code_of[key(value)]);
    return codes(name, "numbers", row_codes, std::move(dictionary));
  }
  std::string bytes;
  for (const double value : values) {
    if (all_float)
      append_little_endian(bytes, std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
    else
      append_little_endian(bytes, key(value), 8);
  }
  planes(column(name, "float"), bytes, all_float ? 4 : 8);
}

void ColumnPack::hashes(const std::string& name, const std::vector<std::string>& values) {
  if (!std::all_of(values.begin(), values.end(), is_hash)) return words(name, values);
  std::string bytes;
  for (const std::string& value : values)
    for (std::size_t i = 0; i < 16; i += 2) {
      unsigned byte = 0;
      std::from_chars(value.data() + i, value.data() + i + 2, byte, 16);
      bytes.push_back(static_cast<char>(byte));
    }
  planes(column(name, "hex"), bytes, 1);  // hashes are noise: planes would gain nothing
}

void ColumnPack::sentences(const std::string& name, const std::vector<std::string>& values) {
  std::map<std::string, std::uint32_t> code_of;
  for (const std::string& value : values)
    for (const std::string& word : split(value, ' ')) code_of.emplace(word, 0);
  nlohmann::json dictionary = numbered(code_of, 1);  // 0 ends a row
  std::vector<std::uint32_t> row_codes;
  for (const std::string& value : values) {
    for (const std::string& word : split(value, ' ')) row_codes.push_back(code_of[word]);
    row_codes.push_back(0);
  }
  codes(name, "lists", row_codes, std::move(dictionary), 1);
}

std::string ColumnPack::finish(nlohmann::json head) const {
  head["tables"] = tables_;
  // Names come from users' files: bytes that are no UTF-8 become U+FFFD instead of an exception.
  const std::string header = head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string bytes;
  append_little_endian(bytes, header.size(), 4);
  return bytes + header + sections_;
}

std::string deflate_bytes(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                             static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION);
  if (code != Z_OK) throw Error("report: zlib could not compress (code " + std::to_string(code) + ")", Error::failed);
  out.resize(size);
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t k) {
      return i + k < bytes.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + k])) : 0U;
    };
    const std::uint32_t group = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (std::size_t k = 0; k < 4; ++k)
      out.push_back(i + k > bytes.size() ? '=' : digits[(group >> (18 - 6 * k)) & 63]);
  }
  return out;
}

}  // namespace fp4
