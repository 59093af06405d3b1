// The one way in which content is written: bytes in order into a StagedFile (src/files/output.h), each write checked;
// the file appears whole on commit() or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/files/output.h"

namespace fp4 {

class OutputFile {
 public:
  // Errors of StagedFile: exit code 2 when `path` exists and `force` is false, or cannot be written there.
  explicit OutputFile(std::string path, bool force = false);
  ~OutputFile();  // removes the temporary file unless commit() succeeded
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Appends. Error (exit code 1) when the device is full or fails; the message names path and reason.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

  // Replaces bytes written earlier; they must lie below position().
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);

  // Flushes, closes, syncs and renames. At most once.
  void commit();

  std::uint64_t position() const { return position_; }
  const std::string& path() const { return path_; }

 private:
  void flush();
  void write_out(std::uint64_t offset, const void* data, std::size_t bytes);

  std::string path_;
  StagedFile staged_;
  int descriptor_ = -1;
  std::uint64_t position_ = 0;  // bytes given to write(); those of buffer_ are not in the file yet
  std::vector<unsigned char> buffer_{};
};

}  // namespace fp4
