// The list of temporaries: doubly linked through its members, so that neither adding nor removing allocates.
#include "src/files/temporaries.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include "src/text/error.h"

namespace fp4 {
namespace {

TemporaryPath* first = nullptr;
std::atomic_flag taken = ATOMIC_FLAG_INIT;
thread_local int depth = 0;
thread_local sigset_t mask_before;

// Whether two looks saw the same file.
bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// The lock belongs to what stands at the path only if that is still the file which was opened.
bool still_there(int descriptor, const std::string& path) {
  struct stat opened {
  }, present{};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &present) == 0 && same_file(opened, present);
}

// flock() on NFS wants a descriptor open for writing, which a folder cannot have.
int open_for_lock(const std::string& path) {
  constexpr int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int descriptor = ::open(path.c_str(), O_RDWR | flags);
  return descriptor >= 0 || errno != EISDIR ? descriptor : ::open(path.c_str(), O_RDONLY | flags);
}

extern "C" void remove_and_die(int signal) {
  remove_temporaries();
  // The signal is blocked in its own handler: it ends the process on return.
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

namespace fs = std::filesystem;

// Those of dead processes; a living one holds the lock of its own.
void remove_abandoned_in(const fs::path& folder, const std::string& start) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    struct stat status {};
    if (entry.path().filename().string().starts_with(start) && ::lstat(entry.path().c_str(), &status) == 0 &&
        S_ISDIR(status.st_mode) && status.st_uid == ::geteuid())
      remove_abandoned(entry.path().string());
  }
}

}  // namespace

HoldSignals::HoldSignals() {
  if (depth++ > 0) return;
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &mask_before);
  while (taken.test_and_set(std::memory_order_acquire)) ::sched_yield();
}

HoldSignals::~HoldSignals() {
  if (--depth > 0) return;
  taken.clear(std::memory_order_release);
  ::pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
}

void TemporaryPath::link() {
  if (listed_) return;
  listed_ = true;
  next_ = first;
  previous_ = nullptr;
  if (first != nullptr) first->previous_ = this;
  first = this;
}

TemporaryPath::~TemporaryPath() {
  forget();
  if (lock_ >= 0) ::close(lock_);
}

int TemporaryPath::make() {
  {
    const HoldSignals hold;
    if (kind_ == TemporaryKind::file) {
      lock_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (lock_ < 0) return errno;
    } else if (::mkdir(path_.c_str(), 0777) != 0) {
      return errno;
    }
    link();
  }
  if (kind_ == TemporaryKind::parent) return 0;
  if (kind_ == TemporaryKind::folder) lock_ = open_for_lock(path_);
  while (lock_ >= 0 && ::flock(lock_, LOCK_EX) != 0 && errno == EINTR) continue;
  if (lock_ < 0 || still_there(lock_, path_)) return 0;
  forget();
  ::close(std::exchange(lock_, -1));
  return ESTALE;
}

void TemporaryPath::list() {
  const HoldSignals hold;
  link();
}

void TemporaryPath::forget() {
  const HoldSignals hold;
  if (!listed_) return;
  listed_ = false;
  (previous_ != nullptr ? previous_->next_ : first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

bool inside_temporary_folder(const std::filesystem::path& path) {
  const std::string text = path.string();
  const HoldSignals hold;
  for (const TemporaryPath* entry = first; entry != nullptr; entry = entry->next_)
    if (entry->kind_ == TemporaryKind::folder && text.size() > entry->path_.size() &&
        text.compare(0, entry->path_.size(), entry->path_) == 0 && text[entry->path_.size()] == '/')
      return true;
  return false;
}

bool remove_abandoned(const std::string& path) {
  const int descriptor = open_for_lock(path);
  if (descriptor < 0) return errno == ENOENT;
  std::error_code failed;
  bool free = false;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 && still_there(descriptor, path)) {
    std::filesystem::remove_all(path, failed);
    free = !failed;
  }
  ::close(descriptor);
  return free;
}

void remove_temporaries() noexcept {
  // Never given back. A thread that has it already (a signal during this very call) does not wait for itself.
  if (depth++ == 0)
    while (taken.test_and_set(std::memory_order_acquire)) ::sched_yield();
  for (const TemporaryPath* entry = first; entry != nullptr; entry = entry->next_)
    if (entry->kind_ == TemporaryKind::file) ::unlink(entry->path_.c_str());
  // A folder goes after those inside it, which may stand behind it in the list.
  for (bool removed = true; removed;) {
    removed = false;
    for (const TemporaryPath* entry = first; entry != nullptr; entry = entry->next_)
      if (entry->kind_ != TemporaryKind::file && ::rmdir(entry->path_.c_str()) == 0) removed = true;
  }
}

void remove_temporaries_on_signals() {
  for (const int signal : {SIGHUP, SIGINT, SIGPIPE, SIGTERM}) {
    struct sigaction present {};
    if (::sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = remove_and_die;
    ::sigfillset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

fs::path temporary_folder() {
  std::error_code absent;
  const fs::path folder = fs::temp_directory_path(absent);
  if (absent) throw Error("TMPDIR: no folder for temporary files: " + absent.message());
  return folder;
}

ScratchFolder::ScratchFolder(std::string_view kind) {
  static std::atomic<unsigned> made = 0;
  const fs::path folder = temporary_folder();
  const std::string start = fmt::format("fp4sim-{}-", kind);
  remove_abandoned_in(folder, start);
  int code = EEXIST;
  while (code == EEXIST || code == ESTALE) {
    path_ = folder / fmt::format("{}{}-{}", start, ::getpid(), made++);
    folder_ = std::make_unique<TemporaryPath>(path_.string(), TemporaryKind::folder);
    code = folder_->make();
  }
  if (code != 0) throw Error(fmt::format("{}: cannot be made: {}", path_.string(), std::strerror(code)), Error::failed);
  ::chmod(path_.c_str(), 0700);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path ScratchFolder::file(std::string_view name) {
  const fs::path path = path_ / name;
  files_.emplace_back(path.string(), TemporaryKind::file).list();
  return path;
}

}  // namespace fp4
