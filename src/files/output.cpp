// Staging of output: temporary names, refusal to overwrite, sync to the disk, atomic appearance.
#include "src/files/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "src/files/output_file.h"
#include "src/text/error.h"
#include "src/text/input_file.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> sync_wanted = true;

std::string reason(int code) { return std::generic_category().message(code); }

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Makes "dir/.name.fp4sim.tmp": hidden and on the same file system; a second writer of the same place takes
// ".name.fp4sim.1.tmp". Null with `code` set to errno when it cannot be made.
std::unique_ptr<TemporaryPath> make_temporary(const fs::path& folder, const std::string& name, TemporaryKind kind,
                                              int& code) {
  constexpr int most = 1000;  // living writers of one place
  for (int number = 0; number < most;) {
    const std::string suffix = number == 0 ? "" : "." + std::to_string(number);
    auto made = std::make_unique<TemporaryPath>((folder / ("." + name + ".fp4sim" + suffix + ".tmp")).string(), kind);
    code = made->make();
    if (code == 0) return made;
    if (code == EEXIST) number += remove_abandoned(made->path()) ? 0 : 1;
    if (code != EEXIST && code != ESTALE) return nullptr;
  }
  return nullptr;
}

fs::path without_trailing_slash(fs::path path) {
  if (path.empty()) throw Error("output: the name is empty");
  return path.has_filename() ? path : path.parent_path();
}

// errno of a sync; file systems that cannot sync a folder say EINVAL, which is no failure of the data.
int sync_path(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int code = ::fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
  ::close(descriptor);
  return code;
}

void sync_or_throw(const fs::path& path, const fs::path& target) {
  if (!sync_wanted) return;
  if (const int code = sync_path(path); code != 0)
    throw Error(target.string() + ": writing to the disk failed: " + reason(code), Error::failed);
}

// Moves a finished file into place; errno. Without force an entry that appeared meanwhile is kept: link() fails where
// rename() would replace; file systems without hard links fall back to a check and rename. Allocates nothing.
int move_into_place(const char* from, const char* to, bool force) {
  if (!force) {
    if (::link(from, to) == 0) {
      ::unlink(from);
      return 0;
    }
    if (errno == EEXIST || ::access(to, F_OK) == 0) return EEXIST;
  }
  return ::rename(from, to) == 0 ? 0 : errno;
}

// A folder beside `target`, which exists, that can take its place; null where the target is a mount point, somebody
// works in it, or its parent cannot be written. `target` becomes the folder that a link leads to.
std::unique_ptr<TemporaryPath> stage_beside(fs::path& target) {
  std::error_code code;
  const fs::path real = fs::canonical(target, code);
  if (code || !real.has_relative_path()) return nullptr;
  // Who works inside would be left in a folder without a name.
  const std::string inside = fs::current_path(code).string() + "/";
  if (code || inside.starts_with(real.string() + "/")) return nullptr;
  struct stat own {
  }, above{};
  if (::stat(real.c_str(), &own) != 0 || ::stat(real.parent_path().c_str(), &above) != 0) return nullptr;
  if (own.st_dev != above.st_dev) return nullptr;
  int failed = 0;
  auto made = make_temporary(real.parent_path(), real.filename().string(), TemporaryKind::folder, failed);
  if (made != nullptr) {
    ::chmod(made->path().c_str(), own.st_mode & 07777);
    target = real;
  }
  return made;
}

// Every entry of `from` but the named ones, in `to` as a link to the same file.
void link_others(const fs::path& from, const fs::path& to, const std::set<std::string>& but) {
  std::error_code code;
  for (fs::recursive_directory_iterator at(from, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().lexically_relative(from).generic_string();
    if (name.starts_with("..fp4sim")) {  // of a writer inside
      at.disable_recursion_pending();
      continue;
    }
    if (but.contains(name)) continue;
    std::error_code failed;
    if (at->is_symlink())
      fs::copy_symlink(at->path(), to / name, failed);
    else if (at->is_directory())
      fs::create_directories(to / name, failed);
    else if (::link(at->path().c_str(), (to / name).c_str()) != 0)
      fs::copy_file(at->path(), to / name, failed);
    if (failed) throw Error(at->path().string() + ": cannot be taken over: " + failed.message(), Error::failed);
  }
  if (code) throw Error(from.string() + ": cannot be read: " + code.message(), Error::failed);
}

// The new folder under the old one's name, and the old one gone. Where the file system cannot exchange, the old one
// steps aside first, and a process that is killed in between leaves both, neither of them mixed.
void exchange_folders(const fs::path& made, const fs::path& target, std::deque<TemporaryPath>& listed) {
  int code = ENOSYS;
  const char *from = made.c_str(), *to = target.c_str();
#ifdef RENAME_EXCHANGE
  {
    const HoldSignals hold;
    code = ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0 ? 0 : errno;
    if (code == 0)
      for (TemporaryPath& entry : listed) entry.forget();
  }
#endif
  std::unique_ptr<TemporaryPath> aside;
  if (code == ENOSYS || code == EINVAL || code == ENOTSUP) {
    aside = make_temporary(target.parent_path(), target.filename().string(), TemporaryKind::folder, code);
    if (aside != nullptr) {
      const char* away = aside->path().c_str();
      const HoldSignals hold;
      code = ::rename(to, away) == 0 ? 0 : errno;
      if (code == 0 && ::rename(from, to) != 0) {
        code = errno;
        if (::rename(away, to) == 0) aside->forget();
      }
      if (code == 0)
        for (TemporaryPath& entry : listed) entry.forget();
    }
  }
  if (code != 0) throw Error(target.string() + ": " + reason(code), Error::failed);
  std::error_code ignored;  // the next writer of this place removes what stays
  fs::remove_all(aside != nullptr ? fs::path(aside->path()) : made, ignored);
  if (aside != nullptr) aside->forget();
}

void throw_unmoved(const std::string& target, int code) {
  if (code == EEXIST) throw Error(target + ": exists already (--force replaces it)");
  if (code != 0) throw Error(target + ": " + reason(code), Error::failed);
}

// A link that stands in the folder may lead anywhere: what is written below `name` would not be in the folder.
void refuse_links(const fs::path& target, std::string_view name) {
  std::error_code absent;
  fs::path at = target;
  for (const fs::path& part : fs::path(name).parent_path())
    if (fs::is_symlink(at /= part, absent))
      throw Error(at.string() + ": is a link, and files of the folder go below it; remove it, or give another folder");
}

}  // namespace

void set_output_sync(bool wait) { sync_wanted = wait; }

StagedFile::StagedFile(fs::path target, bool force) : target_(std::move(target)), force_(force) {
  if (target_.empty()) throw Error("output: the file name is empty");
  std::error_code absent;
  const fs::file_status status = fs::status(target_, absent);
  // Renaming over a device (/dev/null as root) would destroy it, and a pipe (/dev/stdout) has no place to rename to.
  if (fs::exists(status) && !fs::is_regular_file(status)) throw Error(target_.string() + ": is not a regular file");
  std::error_code unresolved;
  if (fs::is_symlink(target_, unresolved)) {
    const fs::path resolved = fs::weakly_canonical(target_, unresolved);
    if (unresolved) throw Error(target_.string() + ": cannot be written: " + unresolved.message());
    target_ = resolved;
  }
  if (fs::exists(status) && !force_) throw Error(target_.string() + ": exists already (--force replaces it)");
  refuse_input(target_);
  int code = 0;
  listed_ = make_temporary(target_.parent_path(), target_.filename().string(), TemporaryKind::file, code);
  if (listed_ == nullptr) throw Error(target_.string() + ": cannot be written: " + reason(code));
  temporary_ = listed_->path();
  synced_with_folder_ = inside_temporary_folder(target_);  // that folder syncs all its files once, before its rename
}

StagedFile::~StagedFile() {
  if (done_) return;
  const HoldSignals hold;
  ::unlink(temporary_.c_str());
  listed_->forget();
}

void StagedFile::commit() {
  refuse_input(target_);  // read since
  if (!synced_with_folder_) sync_or_throw(temporary_, target_);
  int code = 0;
  {
    const HoldSignals hold;
    code = move_into_place(temporary_.c_str(), target_.c_str(), force_);
    if (code == 0) listed_->forget();
  }
  throw_unmoved(target_.string(), code);
  done_ = true;
  if (!synced_with_folder_) sync_or_throw(folder_of(target_), target_);
}

StagedFolder::StagedFolder(fs::path target, bool force)
    : target_(without_trailing_slash(std::move(target))), force_(force) {
  std::error_code code, absent;
  const fs::file_status status = fs::status(target_, absent);
  existed_ = fs::exists(status);
  if (existed_ && !fs::is_directory(status)) throw Error(target_.string() + ": is not a folder");
  if (existed_) {
    // The temporaries of dead writers do not make a folder full: they are removed below.
    const bool empty = std::all_of(
        fs::directory_iterator(target_, code), fs::directory_iterator(),
        [](const fs::directory_entry& entry) { return entry.path().filename().string().starts_with("..fp4sim"); });
    if (code) throw Error(target_.string() + ": cannot be read: " + code.message());
    if (!empty && !force_) throw Error(target_.string() + ": is not empty (--force replaces files of the same names)");
  } else {
    make_parents();
  }
  int failed = 0;
  if (existed_ && force_) folder_ = stage_beside(target_);
  if (folder_ == nullptr)
    folder_ = existed_
                  ? make_temporary(target_, "", TemporaryKind::folder, failed)
                  : make_temporary(target_.parent_path(), target_.filename().string(), TemporaryKind::folder, failed);
  if (folder_ == nullptr) {
    discard();
    throw Error(target_.string() + ": cannot be written: " + reason(failed));
  }
  temporary_ = folder_->path();
}

// Errors show when the folder itself is made.
void StagedFolder::make_parents() {
  std::vector<fs::path> missing;
  for (fs::path up = target_.parent_path(); !up.empty() && !fs::exists(up); up = up.parent_path())
    missing.push_back(up);
  for (; !missing.empty(); missing.pop_back()) {
    TemporaryPath& parent = listed_.emplace_back(missing.back().string(), TemporaryKind::parent);
    if (parent.make() == 0) made_parents_.push_back(missing.back());
  }
}

StagedFolder::~StagedFolder() {
  if (!done_) discard();
}

void StagedFolder::discard() noexcept {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  for (auto parent = made_parents_.rbegin(); parent != made_parents_.rend(); ++parent) fs::remove(*parent, ignored);
}

fs::path StagedFolder::file(std::string_view name) {
  refuse_links(target_, name);
  refuse_input(target_ / name);
  const fs::path path = temporary_ / fs::path(name);
  if (std::find(names_.begin(), names_.end(), name) != names_.end()) return path;
  names_.emplace_back(name);
  std::error_code code;
  for (fs::path up = path.parent_path(); up != temporary_; up = up.parent_path())
    listed_.emplace_back(up.string(), TemporaryKind::folder).list();
  fs::create_directories(path.parent_path(), code);
  if (code) throw Error(target_.string() + ": cannot be written: " + code.message(), Error::failed);
  listed_.emplace_back(path.string(), TemporaryKind::file).list();
  return path;
}

void StagedFolder::sync_content() const {
  std::set<fs::path> folders = {temporary_};
  for (const std::string& name : names_) {
    sync_or_throw(temporary_ / name, target_ / name);
    for (fs::path up = (temporary_ / name).parent_path(); up != temporary_; up = up.parent_path()) folders.insert(up);
  }
  for (const fs::path& folder : folders) sync_or_throw(folder, target_);
}

int StagedFolder::move_files(const std::vector<std::pair<std::string, std::string>>& moves, std::size_t& failed) const {
  const HoldSignals hold;
  for (failed = 0; failed < moves.size(); ++failed)
    if (const int code = move_into_place(moves[failed].first.c_str(), moves[failed].second.c_str(), force_); code != 0)
      return code;
  return 0;
}

void StagedFolder::commit() {
  for (const std::string& name : names_) refuse_input(target_ / name);
  for (const std::string& name : dropped_) refuse_input(target_ / name);
  sync_content();
  std::error_code failed;
  const bool exchanges = existed_ && temporary_.parent_path() != target_;
  std::set<fs::path> changed = {existed_ && !exchanges ? target_ : folder_of(target_)};
  if (exchanges) {
    std::set<std::string> replaced(names_.begin(), names_.end());
    replaced.insert(dropped_.begin(), dropped_.end());
    link_others(target_, temporary_, replaced);
    exchange_folders(temporary_, target_, listed_);
    folder_->forget();
  } else if (!existed_) {
    const HoldSignals hold;
    // rename() onto a folder that appeared meanwhile succeeds only when that folder is empty: nothing is lost.
    const int code = ::rename(temporary_.c_str(), target_.c_str()) == 0 ? 0 : errno;
    if (code == 0) {
      folder_->forget();
      for (TemporaryPath& entry : listed_) entry.forget();
    }
    failed = std::error_code(code, std::generic_category());
  } else {
    std::vector<std::pair<std::string, std::string>> moves;
    for (const std::string& name : names_) {
      refuse_links(target_, name);
      const fs::path to = target_ / name;
      fs::create_directories(to.parent_path(), failed);
      changed.insert(to.parent_path());
      moves.emplace_back((temporary_ / name).string(), to.string());
    }
    std::size_t at = 0;
    if (const int code = move_files(moves, at); code != 0) throw_unmoved(moves[at].second, code);
    for (const std::string& name : dropped_)
      if (refuse_links(target_, name); force_ && ::unlink((target_ / name).c_str()) != 0 && errno != ENOENT)
        throw Error((target_ / name).string() + ": cannot be removed: " + reason(errno), Error::failed);
    fs::remove_all(temporary_, failed);
    failed.clear();
  }
  if (failed) throw Error(target_.string() + ": " + failed.message(), Error::failed);
  done_ = true;
  for (const fs::path& parent : made_parents_) changed.insert(folder_of(parent));
  for (const fs::path& folder : changed) sync_or_throw(folder, target_);
}

void write_file(const fs::path& target, std::string_view content, bool force) {
  OutputFile file(target.string(), force);
  file.write(content);
  file.commit();
}

}  // namespace fp4
