// Metadata entries of a GGUF, one by one (docs/gguf.md of ggml-org/ggml): a key, a type, a value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/files/gguf.h"

namespace fp4 {

// Entries in the order in which they were added. A key that is there already gets the new value in its old place.
class GgufEntries {
 public:
  GgufEntries() = default;
  // Those of a file, as they stand there.
  explicit GgufEntries(const Bytes& bytes);

  void text(const std::string& key, const std::string& value);
  void count(const std::string& key, std::uint64_t value);  // as u32; Error where it needs more
  void real(const std::string& key, double value);          // as f32
  void flag(const std::string& key, bool value);
  void texts(const std::string& key, const std::vector<std::string>& values);
  void reals(const std::string& key, const std::vector<float>& values);
  void integers(const std::string& key, const std::vector<std::int32_t>& values);
  void flags(const std::string& key, const std::vector<bool>& values);

  bool has(const std::string& key) const;
  GgufMetadata metadata() const;

 private:
  void put(const std::string& key, std::string typed_value);
  std::vector<std::pair<std::string, std::string>> entries_ = {};  // key, and type and value as in the file
  std::uint64_t alignment_ = 32;
};

}  // namespace fp4
