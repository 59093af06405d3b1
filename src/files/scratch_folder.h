// A folder among the system's temporary files that goes with its object, with a signal that ends the process, and,
// after a kill -9 or a crash, with the next one of the same kind.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <string_view>

#include "src/files/temporaries.h"

namespace fp4 {

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
