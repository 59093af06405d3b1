// What several tests need: the real binary run as a user runs it, and a folder that disappears.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fp4::test {

struct RunResult {
  int exit_code;  // 128 + number when a signal ended it
  std::string out;
  std::string err;
};

// Runs `arguments` through /bin/sh with the word fp4sim standing for the program under test (environment FP4SIM, set by
// ctest; build/fp4sim otherwise): run_cli("list formats --json").
RunResult run_cli(std::string_view arguments);
RunResult run_shell(std::string_view command);
std::string fp4sim_path();

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, std::string_view text);

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace fp4::test
