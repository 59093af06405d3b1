// Paths that must not outlive the process: what src/files/output.h has begun and not finished. A signal that ends the
// process removes them first; so the list can be read inside a signal handler, where no memory may be allocated and no
// ordinary lock be taken (signal-safety(7)).
//
// A process that dies without a handler (kill -9, a crash) leaves its temporaries. Each is locked (flock) by its writer
// for as long as that lives, so the next writer of the same place tells abandoned ones from those still being written.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace fp4 {

// While one lives, signals wait and no other thread changes the list: what happens inside happens whole. It may be
// taken again inside. Allocate nothing inside: a thread whose handler waits for this one may hold the allocator's lock.
class HoldSignals {
 public:
  HoldSignals();
  ~HoldSignals();
  HoldSignals(const HoldSignals&) = delete;
  HoldSignals& operator=(const HoldSignals&) = delete;
};

// parent: a folder made on the way to a result; it is removed when nothing else stands in it.
enum class TemporaryKind : std::uint8_t { file, folder, parent };

class TemporaryPath {
 public:
  TemporaryPath(std::string path, TemporaryKind kind) : path_(std::move(path)), kind_(kind) {}
  ~TemporaryPath();  // forgets it and gives up its lock
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;

  // Makes and lists the file or folder, with no signal in between, then locks it. Returns 0 or errno: EEXIST when it
  // was there, ESTALE when somebody took it for abandoned before the lock.
  int make();
  void list();    // lists a path that somebody else makes
  void forget();  // takes it off the list; what stands at the path stays
  const std::string& path() const { return path_; }

 private:
  friend void remove_temporaries() noexcept;
  friend bool inside_temporary_folder(const std::filesystem::path& path);
  void link();

  std::string path_;
  TemporaryKind kind_;
  bool listed_ = false;
  int lock_ = -1;
  TemporaryPath *next_ = nullptr, *previous_ = nullptr;
};

// Whether a folder of the list contains the path.
bool inside_temporary_folder(const std::filesystem::path& path);

// Removes the file or folder at `path` when no living process holds its lock; where the file system has no locks,
// nothing counts as abandoned. True when the path is free afterwards.
bool remove_abandoned(const std::string& path);

// Removes everything on the list. For the last moments of a process, also inside a signal handler: afterwards a thread
// that wants to make or finish a temporary waits for ever.
void remove_temporaries() noexcept;

// SIGHUP, SIGINT, SIGPIPE and SIGTERM remove the temporaries, then end the process as they would have (a shell shows
// 128 + number). A signal that is ignored, as under nohup, stays ignored. A command with a handler of its own calls
// remove_temporaries() where it ends the process early.
void remove_temporaries_on_signals();

// A folder among the system's temporary files that goes with its object, with a signal that ends the process, and,
// after a kill -9 or a crash, with the next one of the same kind.

/// The system's folder of temporary files; Error where TMPDIR names none.
std::filesystem::path temporary_folder();

class ScratchFolder {
 public:
  /// `kind` is part of its name and says what is in it: "store". Throws Error.
  explicit ScratchFolder(std::string_view kind);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The path of a file in it that somebody is going to make.
  std::filesystem::path file(std::string_view name);

 private:
  std::filesystem::path path_;
  std::unique_ptr<TemporaryPath> folder_;
  std::deque<TemporaryPath> files_;
};

}  // namespace fp4
