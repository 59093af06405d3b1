// Files and folders that appear complete or not at all: written under a temporary name beside their place, synced to
// the disk, then renamed (POSIX rename is atomic within one file system). An existing result is refused unless `force`
// is given; an object that is destroyed without commit(), or whose process is ended by a signal that
// remove_temporaries_on_signals() catches (temporaries.h), leaves nothing behind. What a killed process left is removed
// by the next writer of the same place.
//
// Content goes through OutputFile (output_file.h) or write_file(): they check every byte.
//
// Errors: exit code 2 where the place is wrong (exists, absent folder, no permission), 1 where writing itself failed.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/files/temporaries.h"

namespace fp4 {

// Whether commit() waits until file and folder are on the disk (fsync); on from the start. Without it a power failure
// shortly after can leave a result empty; a crash of the process cannot. For the whole process: set it before work.
void set_output_sync(bool wait);

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
  bool force_, done_ = false, synced_with_folder_ = false;
  std::unique_ptr<TemporaryPath> listed_;
};

class StagedFolder {
 public:
  // A new folder is staged beside its place and appears by one rename; with force it changes places with one that is
  // there, where that can be done. Else files move in one by one. Other files stay, but for those of drop().
  StagedFolder(std::filesystem::path target, bool force);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  // A file that this result lacks and that an earlier one may have left in the folder: with force, commit() removes it.
  void drop(std::string_view name) { dropped_.emplace_back(name); }

  // The path under which to write the file of this name ("codes.npy"; "sub/x.npy" makes the subfolder).
  std::filesystem::path file(std::string_view name);
  const std::filesystem::path& temporary() const { return temporary_; }
  const std::vector<std::string>& names() const { return names_; }
  void commit();

 private:
  void make_parents();
  void discard() noexcept;
  void sync_content() const;
  int move_files(const std::vector<std::pair<std::string, std::string>>& moves, std::size_t& failed) const;

  std::filesystem::path target_, temporary_;
  std::vector<std::string> names_, dropped_;
  bool force_, existed_ = false, done_ = false;
  std::vector<std::filesystem::path> made_parents_;
  std::unique_ptr<TemporaryPath> folder_;
  std::deque<TemporaryPath> listed_;  // made parents, and what stands in the folder
};

// One text or byte string as a whole file, by way of OutputFile.
void write_file(const std::filesystem::path& target, std::string_view content, bool force);

}  // namespace fp4
