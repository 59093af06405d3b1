#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "src/files/temporaries.h"
#include "src/text/error.h"

namespace fp4 {

namespace {

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
