// What the store needs from the file system: one writer at a time, a copy that disturbs nobody, the kind of disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/files/temporaries.h"

namespace fp4::sweeps {

// Throws Error naming an entry of a sweep's folder that a command would read or, with `to_write`, write and that is no
// regular file (with one name): a link in somebody else's folder leads to whatever file of ours they like. Entries:
// sweep.*, *.checkpoint and trunk-*. Nothing happens where there is no folder.
void refuse_links(const std::filesystem::path& folder, bool to_write);

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

// Files that must stay where they are while they are written to. A file that is deleted, moved or replaced takes what
// is written after that with it, and no write ever fails: only its name tells.
class FileWatch {
 public:
  // Remembers the file of this name; one that does not exist, or is watched already, is passed over.
  void add(const std::filesystem::path& file);
  // Throws Error naming the first file whose name does not lead to the remembered file.
  void check() const;

 private:
  struct Entry {
    std::filesystem::path file;
    uint64_t device;
    uint64_t inode;
  };
  std::vector<Entry> entries_;
};

// SQLite cannot open a store whose shared-memory file it may not use (left by another user, or not a file). Its content
// is an index of the journal and can be made again, so such a file is removed. Throws Error naming a journal that
// cannot be used: it may hold runs.
void remove_unusable_sidecars(const std::filesystem::path& store_file);

// fsync of a file or folder, without which a new name may be gone after a power loss.
void sync_to_disk(const std::filesystem::path& path);

// A private copy of a store with its journal in a temporary folder, taken without locking the original: for stores that
// cannot be opened in place (read-only folder with a journal left behind, or a writer that holds the file alone).
// Throws Error when the original keeps changing under the copy.
class Snapshot {
 public:
  explicit Snapshot(const std::filesystem::path& store_file);
  std::string file() const { return (folder_.path() / "sweep.sqlite").string(); }

 private:
  ScratchFolder folder_{"store"};
};

}  // namespace fp4::sweeps
