// Do the tutorials of tools/examples work as they stand? Their files are written and their commands run in order, one
// folder a page; what a page shows of the output has to be there. `# exits with 1` behind a command says its exit code.
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>

#include "tests/support/support.h"

using namespace fp4::test;
namespace fs = std::filesystem;

namespace {

std::string without_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(without_end(line));
  return lines;
}

// `name`: of a line that is nothing else; empty otherwise.
std::string file_name(const std::string& line) {
  const bool is_name = line.size() > 3 && line.starts_with('`') && line.ends_with("`:");
  return is_name ? line.substr(1, line.size() - 3) : "";
}

class Page {
 public:
  explicit Page(const std::string& path) : lines_(lines_of(read_text(path))) {
    fs::create_directories(folder_ / "bin");
    fs::create_directories(folder_ / "work");
    fs::create_symlink(fs::absolute(fp4sim_path()), folder_ / "bin/fp4sim");
    const char* python = std::getenv("FP4SIM_PYTHON");
    fs::create_symlink(python != nullptr ? python : "/usr/bin/python3", folder_ / "bin/python3");
  }

  void run() {
    std::string name;
    while (at_ < lines_.size()) {
      const std::string line = lines_[at_++];
      if (!line.starts_with("```")) {
        if (!line.empty()) name = file_name(line);
      } else if (!name.empty()) {
        write_file(name);
        name.clear();
      } else {
        run_block();
      }
    }
  }

  size_t commands = 0, compared = 0;

 private:
  bool ends_block() const { return at_ == lines_.size() || lines_[at_].starts_with("```"); }

  void write_file(const std::string& name) {
    std::string text;
    for (; !ends_block(); ++at_) text += lines_[at_] + "\n";
    write_text(folder_ / "work/" + name, text);
    ++at_;
  }

  void run_block() {
    while (!ends_block()) {
      REQUIRE(lines_[at_].starts_with("$ "));
      std::string command = lines_[at_++].substr(2);
      const size_t note = command.find("# exits with ");
      const int expected = note == std::string::npos ? 0 : std::stoi(command.substr(note + 13));
      const RunResult result = run_shell("cd '" + folder_ / "work" + "' && export PATH='" + folder_ / "bin" +
                                         "':\"$PATH\"\n" + command.substr(0, note) + "\n");
      INFO("$ " << command << "\n" << result.out << result.err);
      const bool lacks_charts = result.err.find("built without the chart library") != std::string::npos;
      CHECK((lacks_charts || result.exit_code == expected));
      ++commands;
      compare(lines_of(result.out));
    }
    ++at_;
  }

  // Shown lines occur in this order; "..." stands for any number of others.
  void compare(const std::vector<std::string>& printed) {
    size_t from = 0;
    for (; !ends_block() && !lines_[at_].starts_with("$ "); ++at_) {
      if (lines_[at_] == "..." || lines_[at_].empty()) continue;
      INFO("shown: " << lines_[at_]);
      while (from < printed.size() && printed[from] != lines_[at_]) ++from;
      CHECK(from < printed.size());
      ++compared;
    }
  }

  std::vector<std::string> lines_;
  size_t at_ = 0;
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("the tutorials do what they show", "[cli]") {
  for (const char* path : {"tools/examples/researcher.md", "tools/examples/kernel_engineer.md",
                           "tools/examples/architect.md", "src/golden/README.md"}) {
    INFO(path);
    Page page(path);
    page.run();
    CHECK(page.commands >= 6);
    CHECK(page.compared >= 5);
  }
}

TEST_CASE("the version stands in the changes and the citation", "[cli]") {
  const std::string line = run_cli("--version").out;  // "fp4sim 0.2.0\n"
  const std::string version = line.substr(7, line.size() - 8);
  CHECK_THAT(read_text("CHANGELOG.md"), Catch::Contains("## " + version + "\n"));
  CHECK_THAT(read_text("CITATION.cff"), Catch::Contains("\nversion: " + version + "\n"));
}
