// Helpers of support.h.
#include "tests/support/support.h"

#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace fp4::test {

std::string fp4sim_path() {
  const char* given = std::getenv("FP4SIM");
  return given != nullptr ? given : "build/fp4sim";
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

RunResult run_shell(std::string_view command) {
  const TemporaryFolder folder;
  write_text(folder / "command", command);
  const int status = std::system(
      ("/bin/sh '" + folder / "command" + "' >'" + folder / "out" + "' 2>'" + folder / "err" + "' </dev/null").c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read_text(folder / "out"), read_text(folder / "err")};
}

RunResult run_cli(std::string_view arguments) {
  return run_shell("exec '" + fp4sim_path() + "' " + std::string(arguments) + "\n");
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "fp4sim_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace fp4::test
