// Decides: how a task reads its batches from a file while it trains (RunOptions::files) instead of from memory: record
// by record with pread. `cold` drops the file's pages from the cache before every batch, so that records come from the
// disk; `cached` leaves them there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/net/layers.h"

namespace fp4::tasks {

class RecordFile {
 public:
  /// Throws Error for a file that cannot be opened.
  RecordFile(std::string path, sim::FileReading how);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  void begin_batch() const;
  /// `bytes` bytes from `offset` on. Throws Error where the file ends before them.
  void read(int64_t offset, void* to, size_t bytes) const;

 private:
  std::string path_;
  sim::FileReading how_;
  int file_;
};

}  // namespace fp4::tasks
