// Files and folders that appear complete or not at all: written under a temporary name beside their place, then renamed
// (POSIX rename is atomic within one file system). An existing result is refused unless `force` is given; an object
// that is destroyed without commit() leaves nothing behind.
//
// Errors: exit code 2 where the place is wrong (exists, absent folder, no permission), 1 where writing itself failed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fp4 {

class StagedFile {
 public:
  // Makes an empty temporary file at once, so that a place that cannot be written is reported before any work is done.
  StagedFile(std::filesystem::path target, bool force);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  // write here
  void commit();                                                         // then it is at the target

 private:
  std::filesystem::path target_, temporary_;
  bool force_, done_ = false;
};

class StagedFolder {
 public:
  // A new folder is staged beside its place and appears by one rename. Into an existing empty folder (or, with force,
  // any folder) the files move one by one in the order of file(); other files there stay untouched.
  StagedFolder(std::filesystem::path target, bool force);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  // The path under which to write the file of this name ("codes.npy"; "sub/x.npy" makes the subfolder).
  std::filesystem::path file(std::string_view name);
  const std::filesystem::path& temporary() const { return temporary_; }
  const std::vector<std::string>& names() const { return names_; }
  void commit();

 private:
  void discard() noexcept;

  std::filesystem::path target_, temporary_;
  std::vector<std::filesystem::path> made_parents_;
  std::vector<std::string> names_;
  bool force_, existed_ = false, done_ = false;
};

// One text or byte string as a whole file, by way of StagedFile.
void write_file(const std::filesystem::path& target, std::string_view content, bool force);

}  // namespace fp4
