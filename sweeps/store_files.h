// What the store needs from the file system: one writer at a time, a copy that disturbs nobody, the kind of disk.
#pragma once

#include <filesystem>
#include <string>

namespace fp4::sweeps {

// Holds DIR/sweep.lock (flock: gone with the process, however it ends). Throws Error naming the holder when taken.
class WriterLock {
 public:
  explicit WriterLock(const std::filesystem::path& folder);
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
};

// A private copy of a store with its journal in a temporary folder, taken without locking the original: for stores that
// cannot be opened in place (read-only folder with a journal left behind, or a writer that holds the file alone).
// Throws Error when the original keeps changing under the copy.
class Snapshot {
 public:
  explicit Snapshot(const std::filesystem::path& store_file);
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  std::string file() const { return (folder_ / "sweep.sqlite").string(); }

 private:
  std::filesystem::path folder_;
};

}  // namespace fp4::sweeps
