// Bytes at offsets: a file, a part of one, or memory. Every parser reads through this, with pread and never mmap, so a
// file that shrinks while it is read gives an Error and not a SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fp4 {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Fills `out` with bytes [offset, offset + bytes). Error (exit code 2) naming offset and size when that passes the
  // end; exit code 1 when the device fails.
  void read(std::uint64_t offset, void* out, std::size_t bytes);

  // Checks the checksum of the whole, where there is one, in one pass. Readers that take bytes in file order need not
  // call it: the check then happens as the last byte goes by.
  virtual void verify() {}

  // Whether several threads can read at the same time, in any order, at no more cost.
  virtual bool reads_anywhere() const { return false; }

  std::uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }  // opens every message

 protected:
  ByteSource(std::string name, std::uint64_t size) : name_(std::move(name)), size_(size) {}

 private:
  virtual void read_checked(std::uint64_t offset, void* out, std::size_t bytes) = 0;
  std::string name_;
  std::uint64_t size_;
};

using Bytes = std::shared_ptr<ByteSource>;

// A regular file. Error when it is missing, a directory, a pipe or not readable.
Bytes open_file(const std::string& path);

// The whole content of a regular file of at most `most` bytes, in the one way in which somebody else's comes into
// memory: a pipe would wait for ever and a device never ends, so both are refused; what the file gains while it is read
// does not count. Error with exit code 2, naming the file: absent, not readable, a folder, a pipe, a device, larger;
// with exit code 1 when the disk fails.
inline constexpr std::uint64_t any_size = ~std::uint64_t{0};
std::string read_file(const std::string& path, std::uint64_t most = any_size);

// Bytes held in memory (fuzzers, tests).
Bytes open_memory(std::string name, std::vector<unsigned char> bytes);

// The part [offset, offset + size) of another source, under a name of its own. Error when it passes the end.
Bytes open_part(Bytes whole, std::string name, std::uint64_t offset, std::uint64_t size);

}  // namespace fp4
