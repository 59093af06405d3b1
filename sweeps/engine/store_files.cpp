// Locking and copying of store files. SQLite's own locks are POSIX record locks on the database file, which a process
// loses when it closes ANY descriptor of that file: so the writer lock is a file of its own.
#include "sweeps/engine/store_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "src/text/error.h"
#include "sweeps/engine/sqlite.h"
#include "sweeps/engine/store.h"

namespace fp4::sweeps {

namespace fs = std::filesystem;

void refuse_links(const fs::path& folder, bool to_write) {
  std::error_code absent;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, absent)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("sweep.") && !name.ends_with(".checkpoint") && !name.starts_with("trunk-")) continue;
    struct stat status {};
    if (::lstat(entry.path().c_str(), &status) != 0) continue;  // gone meanwhile
    const char* const what = S_ISLNK(status.st_mode)           ? "is a link"
                             : !S_ISREG(status.st_mode)        ? "is not a regular file"
                             : to_write && status.st_nlink > 1 ? "has a second name (a hard link)"
                                                               : nullptr;
    if (what == nullptr) continue;
    throw Error(
        entry.path().string(),
        std::string(what) +
            "; a sweep's folder holds files of its own, and nothing was changed. Remove it, or put a copy there");
  }
}

WriterLock::WriterLock(const fs::path& folder) : file_(folder / "sweep.lock") {
  refuse_links(folder, /*to_write=*/true);
  // The holder removes the file when it is done; a lock taken on a removed file protects nothing, so look again.
  for (int attempt = 0; attempt < 100; ++attempt) {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (descriptor_ < 0)
      throw store_error(folder, std::string("the folder cannot be written (") + std::strerror(errno) + ")");
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      std::array<char, 128> holder{};
      const ssize_t size = ::pread(descriptor_, holder.data(), holder.size() - 1, 0);
      ::close(descriptor_);
      throw store_error(folder, "another sweep is writing here (" +
                                    std::string(holder.data(), size > 0 ? static_cast<size_t>(size) : 0) +
                                    "); wait for it, or give this one its own --out and merge");
    }
    struct stat status {};
    if (::fstat(descriptor_, &status) == 0 && status.st_nlink == 1 && S_ISREG(status.st_mode)) break;
    ::close(descriptor_);
    descriptor_ = -1;
  }
  if (descriptor_ < 0) throw store_error(folder, "sweep.lock cannot be held: it keeps being replaced");
  std::array<char, 65> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string holder = "process " + std::to_string(::getpid()) + " on " + host.data();
  // The text is for people only; where it cannot be written (a full disk) the lock holds all the same.
  if (::ftruncate(descriptor_, 0) == 0) (void)!::pwrite(descriptor_, holder.data(), holder.size(), 0);
}

WriterLock::~WriterLock() {
  if (descriptor_ < 0) return;
  // A folder that was replaced meanwhile may hold the lock of another sweep under the same name.
  struct stat mine {
  }, named{};
  if (::fstat(descriptor_, &mine) == 0 && ::stat(file_.c_str(), &named) == 0 && mine.st_dev == named.st_dev &&
      mine.st_ino == named.st_ino) {
    ::unlink(file_.c_str());
  }
  ::close(descriptor_);
}

void FileWatch::add(const fs::path& file) {
  for (const Entry& entry : entries_) {
    if (entry.file == file) return;
  }
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0) entries_.push_back({file, status.st_dev, status.st_ino});
}

void FileWatch::check() const {
  for (const Entry& entry : entries_) {
    struct stat status {};
    if (::stat(entry.file.c_str(), &status) == 0 && status.st_dev == entry.device && status.st_ino == entry.inode)
      continue;
    throw store_error(entry.file,
                      "was deleted, moved or replaced while this sweep was writing to it; runs since then are not "
                      "stored. Put it back or start again: the same command does what is missing");
  }
}

void remove_unusable_sidecars(const fs::path& store_file) {
  const auto usable = [](const fs::path& file) {
    struct stat status {};
    if (::lstat(file.c_str(), &status) != 0) return true;  // absent
    return S_ISREG(status.st_mode) && ::access(file.c_str(), R_OK | W_OK) == 0;
  };
  const fs::path shared = store_file.string() + "-shm";
  std::error_code failure;
  if (!usable(shared)) fs::remove(shared, failure);
  for (const fs::path& file : {shared, fs::path(store_file.string() + "-wal")}) {
    if (usable(file)) continue;
    throw store_error(file,
                      "left by another program or user, and cannot be used; make it a file that can be "
                      "read and written (a -wal holds runs), or remove it");
  }
}

void sync_to_disk(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw store_error(path, std::string("cannot be opened (") + std::strerror(errno) + ")");
  const int failed = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  // File systems that cannot sync a folder say EINVAL.
  if (failed != 0 && reason != EINVAL)
    throw store_error(path, std::string("does not reach the disk (") + std::strerror(reason) + ")");
}

namespace {

// Size, time and the first 100 bytes (SQLite's header with its change counter; a WAL's salts): equal before and after a
// copy means that no transaction ended in between.
std::string fingerprint(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return "absent";
  std::ifstream in(file, std::ios::binary);
  std::array<char, 100> head{};
  in.read(head.data(), head.size());
  return std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + " " +
         std::to_string(status.st_mtim.tv_nsec) + " " + std::string(head.data(), static_cast<size_t>(in.gcount()));
}

constexpr std::array<const char*, 2> sidecars = {"-wal", "-journal"};

}  // namespace

Snapshot::Snapshot(const fs::path& store_file) {
  for (const char* ending : {"", "-wal", "-journal", "-shm"}) folder_.file("sweep.sqlite" + std::string(ending));
  try {
    for (int attempt = 0; attempt < 20; ++attempt) {
      std::string before = fingerprint(store_file);
      std::string after;
      for (const char* sidecar : sidecars) before += fingerprint(store_file.string() + sidecar);
      fs::copy_file(store_file, file(), fs::copy_options::overwrite_existing);
      after = fingerprint(store_file);
      for (const char* sidecar : sidecars) {
        const fs::path from = store_file.string() + sidecar;
        std::error_code gone;
        fs::remove(file() + sidecar);
        fs::copy_file(from, file() + sidecar, gone);
        after += fingerprint(from);
      }
      // A copied store belongs to us whatever the mode of the original was.
      fs::permissions(file(), fs::perms::owner_read | fs::perms::owner_write);
      if (before == after) return;
    }
  } catch (const fs::filesystem_error& error) {
    throw store_error(store_file, "cannot be read: " + error.code().message());
  }
  throw store_error(store_file, "keeps changing while it is copied; try again when its writer is idle");
}

bool is_network_file_system(const fs::path& folder) {
  struct statfs status {};
  if (::statfs(folder.c_str(), &status) != 0) return false;
  // Magic numbers from statfs(2) and the file systems' own headers.
  switch (static_cast<uint32_t>(status.f_type)) {
    case 0x6969:      // NFS
    case 0x517b:      // SMB
    case 0xff534d42:  // CIFS
    case 0xfe534d42:  // SMB2
    case 0x0bd00bd0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
    case 0x00c36400:  // Ceph
    case 0x01021997:  // 9p
    case 0x5346414f:  // AFS
    case 0x65735546:  // FUSE (sshfs and others)
      return true;
    default: return false;
  }
}

}  // namespace fp4::sweeps
