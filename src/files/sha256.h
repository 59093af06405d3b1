// SHA-256 (FIPS 180-4) for manifests: whole buffers, streams and files. Not meant for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace fp4 {

class Sha256 {
 public:
  explicit Sha256(bool portable = false) : portable_(portable) {}  // portable: never the CPU's SHA instructions
  void update(const void* data, std::size_t bytes);
  // The digest in 64 lower-case hex digits; the object may not be used afterwards.
  std::string hex();

 private:
  void compress(const std::uint8_t* block, std::size_t blocks);
  void compress_portable(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};  // FIPS 180-4, 5.3.3
  std::array<std::uint8_t, 64> pending_ = {};
  std::uint64_t length_ = 0;  // bytes so far
  bool portable_;
};

std::string sha256_hex(std::string_view data);
std::string sha256_file(const std::filesystem::path& path);  // throws Error when the file cannot be read

}  // namespace fp4
