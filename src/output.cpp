// Staging of output: temporary names, refusal to overwrite, atomic appearance.
#include "src/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "src/error.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;

std::string reason(int code) { return std::generic_category().message(code); }

// "dir/name" -> "dir/.name.PID.tmp": hidden, on the same file system, and different for two processes.
fs::path temporary_name(const fs::path& target) {
  return target.parent_path() / ("." + target.filename().string() + "." + std::to_string(::getpid()) + ".tmp");
}

fs::path without_trailing_slash(fs::path path) {
  if (path.empty()) throw Error("output: the name is empty");
  return path.has_filename() ? path : path.parent_path();
}

// Moves a finished file into place. Without force an entry that appeared meanwhile is kept: link() fails where rename()
// would replace; file systems without hard links fall back to a check and rename.
void move_into_place(const fs::path& from, const fs::path& to, bool force) {
  if (!force) {
    if (::link(from.c_str(), to.c_str()) == 0) {
      ::unlink(from.c_str());
      return;
    }
    if (errno == EEXIST || fs::exists(to)) throw Error(to.string() + ": exists already (--force replaces it)");
  }
  if (::rename(from.c_str(), to.c_str()) != 0) throw Error(to.string() + ": " + reason(errno), 1);
}

}  // namespace

StagedFile::StagedFile(fs::path target, bool force) : target_(std::move(target)), force_(force) {
  if (target_.empty()) throw Error("output: the file name is empty");
  if (fs::is_symlink(target_)) target_ = fs::weakly_canonical(target_);
  std::error_code ignored;
  const fs::file_status status = fs::status(target_, ignored);
  // Renaming over a device (/dev/null as root) would destroy it.
  if (fs::exists(status) && !fs::is_regular_file(status)) throw Error(target_.string() + ": is not a regular file");
  if (fs::exists(status) && !force_) throw Error(target_.string() + ": exists already (--force replaces it)");
  temporary_ = temporary_name(target_);
  const int file = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) throw Error(target_.string() + ": cannot be written: " + reason(errno));
  ::close(file);
}

StagedFile::~StagedFile() {
  if (!done_) ::unlink(temporary_.c_str());
}

void StagedFile::commit() {
  move_into_place(temporary_, target_, force_);
  done_ = true;
}

StagedFolder::StagedFolder(fs::path target, bool force)
    : target_(without_trailing_slash(std::move(target))), force_(force) {
  std::error_code code, absent;
  const fs::file_status status = fs::status(target_, absent);
  existed_ = fs::exists(status);
  if (existed_ && !fs::is_directory(status)) throw Error(target_.string() + ": is not a folder");
  if (existed_) {
    const bool empty = fs::is_empty(target_, code);
    if (code) throw Error(target_.string() + ": cannot be read: " + code.message());
    if (!empty && !force_) throw Error(target_.string() + ": is not empty (--force replaces files of the same names)");
    temporary_ = target_ / (".fp4sim." + std::to_string(::getpid()) + ".tmp");
  } else {
    temporary_ = temporary_name(target_);
    std::vector<fs::path> missing;
    for (fs::path up = target_.parent_path(); !up.empty() && !fs::exists(up); up = up.parent_path())
      missing.push_back(up);
    for (; !missing.empty() && !code; missing.pop_back())
      if (fs::create_directory(missing.back(), code)) made_parents_.push_back(missing.back());
  }
  if (!code) fs::create_directory(temporary_, code);
  if (code) {
    discard();
    throw Error(target_.string() + ": cannot be written: " + code.message());
  }
}

StagedFolder::~StagedFolder() {
  if (!done_) discard();
}

void StagedFolder::discard() noexcept {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  for (auto parent = made_parents_.rbegin(); parent != made_parents_.rend(); ++parent) fs::remove(*parent, ignored);
}

fs::path StagedFolder::file(std::string_view name) {
  if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.emplace_back(name);
  const fs::path path = temporary_ / fs::path(name);
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  if (code) throw Error(target_.string() + ": cannot be written: " + code.message(), 1);
  return path;
}

void StagedFolder::commit() {
  std::error_code code;
  if (!existed_) {
    // rename() onto a folder that appeared meanwhile succeeds only when that folder is empty: nothing is lost.
    fs::rename(temporary_, target_, code);
    if (code) throw Error(target_.string() + ": " + code.message(), 1);
  } else {
    for (const std::string& name : names_) {
      const fs::path to = target_ / name;
      fs::create_directories(to.parent_path(), code);
      move_into_place(temporary_ / name, to, force_);
    }
    fs::remove_all(temporary_, code);
  }
  done_ = true;
}

void write_file(const fs::path& target, std::string_view content, bool force) {
  StagedFile staged(target, force);
  std::FILE* file = std::fopen(staged.temporary().c_str(), "wb");
  const bool opened = file != nullptr;
  const bool written = opened && std::fwrite(content.data(), 1, content.size(), file) == content.size();
  int code = errno;
  // A full disk may show only when the buffer is flushed.
  const bool closed = opened && std::fclose(file) == 0;
  if (written && !closed) code = errno;
  if (!written || !closed) throw Error(target.string() + ": writing failed: " + reason(code), 1);
  staged.commit();
}

}  // namespace fp4
