// Tables as columns of small integers: how the report page carries its data. A page of 20,000 runs as JSON objects
// would be 20 MB; columns with dictionaries, split into byte planes and deflated, are a tenth of a megabyte per few
// thousand runs. sweeps/report/data.js is the reader.
//
// Layout: header length (uint32, little-endian), header (JSON, UTF-8), sections. The header's "tables" maps table ->
// {rows, columns: name -> {kind, at, width, ...}}; `at` counts from the end of the header. Kinds:
//   words   one code per row of `width` bytes into `values` (JSON strings)
//   numbers the same with JSON numbers in `values`, null = not a number
//   float   IEEE 754 little-endian of `width` 4 (only if every value is exactly a float) or 8
//   hex     8 bytes per row, the 16 hex digits of a hash
//   lists   per row a sequence of codes into `values`, ended by code 0 (values start at code 1); joined by blanks
// Everything wider than a byte lies in planes: all first bytes, then all second bytes ...: neighbours are then alike.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fp4 {

class ColumnPack {
 public:
  void table(const std::string& name, std::size_t rows);  // the columns that follow belong to it
  void words(const std::string& name, const std::vector<std::string>& values);
  void numbers(const std::string& name, const std::vector<double>& values);
  void hashes(const std::string& name, const std::vector<std::string>& values);  // falls back to words
  void sentences(const std::string& name, const std::vector<std::string>& values);

  // `head` with "tables" added, then the sections.
  std::string finish(nlohmann::json head) const;

 private:
  nlohmann::json& column(const std::string& name, const char* kind);
  void codes(const std::string& name, const char* kind, const std::vector<std::uint32_t>& codes,
             nlohmann::json dictionary, std::size_t first = 0);
  void planes(nlohmann::json& place, std::string_view rows, std::size_t width);

  nlohmann::json tables_ = nlohmann::json::object();
  std::string current_;
  std::string sections_;
};

// zlib stream (RFC 1950, what the browser's DecompressionStream('deflate') reads) at the highest level.
std::string deflate_bytes(std::string_view bytes);
std::string base64(std::string_view bytes);

}  // namespace fp4
