// Do the command blocks of every page work as they stand? Of each page the commands run in order, in one folder
// (workshop.h); files whose names stand before a block are written; what a page shows of the output has to be there.
// `# exits with 1` behind a command says its exit code. README.md is judged in test_examples.cpp, examples in Python by
// tests/python, changes by tests/first_change.py, and what takes minutes to hours is planned here and not run.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>

#include "tests/support/workshop.h"

using namespace fp4::test;
namespace fs = std::filesystem;

namespace {

// `name`: of a line that is nothing else; empty otherwise.
std::string file_name(const std::string& line) {
  const bool is_name = line.size() > 3 && line.starts_with('`') && line.ends_with("`:");
  return is_name ? line.substr(1, line.size() - 3) : "";
}

// How a command of a page is judged that would build, install or train for minutes.
struct Planned {
  const char* start;
  const char* run;  // NAME: its second word; empty: the file is a script that parses
};
const Planned planned[] = {
    {"tools/study.sh ", "fp4sim show NAME --kind grid > grid.json"},  // test_sweep_report plans every grid
    {"tools/setup.sh", ""},
    {"tools/corpus.sh", ""},
    {"tools/gpu_check.sh", ""},
    {"tools/studies/", ""},
    {"python3 tools/", ""},
    {"python3 -m venv ", "true"},  // tests/python/test_python_wheel.py
    {"env/bin/python3 ", "true"},
    {"fp4sim sweep run ladder_small ", "fp4sim show ladder_small --kind grid"},  // reads a corpus of 105 MB
    {"fp4sim sweep run ladder_fixed ", "fp4sim show ladder_fixed --kind grid"},
    {"fp4sim sweep run ladder_fixed_held_out ", "fp4sim show ladder_fixed_held_out --kind grid"},
    {"fp4sim sweep run ladder_held_out ", "fp4sim show ladder_held_out --kind grid"},
    {"fp4sim sweep run ladder_rates ", "fp4sim show ladder_rates --kind grid"},
    {"fp4sim sweep run ladder_rates_800k ", "fp4sim show ladder_rates_800k --kind grid"},
    {"fp4sim table build/studies/ladder_rates ", "fp4sim table --help"},
};

bool is_command(const std::string& line) {
  const auto starts = [&](const char* word) { return line.starts_with("    " + std::string(word)); };
  return starts("fp4sim ") || starts("mpirun ") ||
         std::any_of(std::begin(planned), std::end(planned), [&](auto& p) { return starts(p.start); });
}

class Page {
 public:
  Page(std::string path, Workshop& workshop)
      : path_(std::move(path)), lines_(lines_of(read_text(path_))), workshop_(workshop), place_(workshop.new_place()) {
    // Commands below results/ read their folder.
    if (path_.starts_with("results/") && fs::path(path_).parent_path() != "results")
      fs::copy(fs::path(path_).parent_path(), place_ / fs::path(path_).parent_path(), fs::copy_options::recursive);
  }

  void run() {
    std::string name;
    while (at_ < lines_.size()) {
      const std::string line = lines_[at_++];
      if (line.starts_with("```")) {
        run_block(line.substr(3), name);
        name.clear();
      } else if (is_command(line)) {
        std::string command = line.substr(4, line.find("   ", 4) - 4);
        for (size_t end; (end = command.find(" && ")) != std::string::npos; command = command.substr(end + 4))
          plan(command.substr(0, end));
        plan(command);
      } else if (!line.empty()) {
        name = file_name(line);
      }
    }
  }

  size_t commands = 0, compared = 0;

 private:
  bool ends_block() const { return at_ == lines_.size() || lines_[at_].starts_with("```"); }

  void run_block(const std::string& kind, const std::string& name) {
    const std::string first = at_ < lines_.size() ? lines_[at_] : "";
    if (kind != "python" && name.empty() && kind != "json" && kind != "text" && kind != "diff") {
      INFO(path_ << ": neither a command nor a named file (what is no command is a block of `text`): " << first);
      REQUIRE(first.starts_with("$ "));
      while (!ends_block()) run_command();
    } else {
      std::string text;
      for (; !ends_block(); ++at_) text += lines_[at_] + "\n";
      if (!name.empty()) write_text(place_ / name, text);
      if (name.empty() && kind == "json") {
        write_text(place_ / "shown.json", text);
        check("fp4sim sweep run shown.json --dry-run", 0);
      }
    }
    ++at_;
  }

  void run_command() {
    REQUIRE(lines_[at_].starts_with("$ "));
    std::string command = lines_[at_++].substr(2);
    const size_t note = command.find("# exits with ");
    const int expected = note == std::string::npos ? 0 : std::stoi(command.substr(note + 13));
    command = command.substr(0, note);
    // Which kernel takes a product depends on the machine; the page shows one with AVX-512.
    const bool is_here =
        command.find("--explain") == std::string::npos || run_cli("version").out.find("avx512") != std::string::npos;
    compare(lines_of(check(command, expected)), shortened(command) == command && is_here);
  }

  void plan(std::string command) {
    command.erase(command.find_last_not_of(' ') + 1);
    for (const Planned& p : planned) {
      if (!command.starts_with(p.start)) continue;
      std::string run = p.run;
      const size_t begin = command.find("tools/");
      const std::string script =
          begin == std::string::npos ? "" : command.substr(begin, command.find(' ', begin) - begin);
      std::string name = command.substr(command.find(' ') + 1);
      if (const size_t at = name.find(" --turned"); at != std::string::npos) name[at] = '_', name.erase(at + 1, 2);
      if (const size_t at = run.find("NAME"); at != std::string::npos) run.replace(at, 4, name);
      if (run.empty()) {
        run = "cd '" + fs::absolute(".").string() + "' && test -f " + script + " && ";
        run += script.ends_with(".py") ? "python3 -c 'import ast; ast.parse(open(\"" + script + "\").read())'"
                                       : "bash -n " + script;
      }
      check(run, 0);
      return;
    }
    check(command, 0);
  }

  // What the command prints.
  std::string check(const std::string& command, int expected) {
    const RunResult result = workshop_.run_in(place_, command);
    INFO(path_ << ": $ " << command << "\n" << result.out << result.err);
    const bool lacks = result.err.find("built without the chart library") != std::string::npos ||
                       result.err.find("MPI: none") != std::string::npos ||
                       result.err.find("mpirun: not found") != std::string::npos ||
                       result.err.find("mpirun: command not found") != std::string::npos;
    CHECK((lacks || result.exit_code == expected));
    if (command.starts_with("fp4sim ")) CHECK(wide_line(result.out) == "");
    ++commands;
    return result.out;
  }

  // Shown lines occur in this order; "..." stands for any number of others. Where less ran, nothing is compared.
  void compare(const std::vector<std::string>& printed, bool is_whole) {
    size_t from = 0;
    for (; !ends_block() && !lines_[at_].starts_with("$ "); ++at_) {
      if (lines_[at_] == "..." || lines_[at_].empty() || !is_whole) continue;
      INFO(path_ << " shows: " << lines_[at_]);
      while (from < printed.size() && printed[from] != lines_[at_]) ++from;
      CHECK(from < printed.size());
      ++compared;
    }
  }

  std::string path_;
  std::vector<std::string> lines_;
  Workshop& workshop_;
  fs::path place_;
  size_t at_ = 0;
};

std::vector<std::string> pages() {
  std::vector<std::string> found;
  for (const fs::path folder : {"include", "src", "sim", "tasks", "sweeps", "tools", "tests", "results", "."}) {
    for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::end(entry); ++entry) {
      if (folder == "." && entry->is_directory()) entry.disable_recursion_pending();
      const std::string path = entry->path().lexically_normal().string();
      if (path.ends_with(".md") && path != "README.md") found.push_back(path);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

TEST_CASE("the tutorials do what they show", "[cli]") {
  Workshop workshop;
  for (const char* path :
       {"tools/examples/researcher.md", "tools/examples/kernel_engineer.md", "tools/examples/architect.md",
        "tools/examples/hardware_designer.md", "src/golden/README.md"}) {
    INFO(path);
    Page page(path, workshop);
    page.run();
    CHECK(page.commands >= 6);
    CHECK(page.compared >= 5);
  }
}

TEST_CASE("the command blocks of every other page work", "[cli]") {
  Workshop workshop;
  size_t commands = 0, compared = 0, read = 0;
  for (const std::string& path : pages()) {
    if (path.starts_with("tools/examples/") || path == "src/golden/README.md") continue;
    Page page(path, workshop);
    page.run();
    commands += page.commands;
    compared += page.compared;
    ++read;
  }
  CHECK(read >= 35);
  CHECK(commands >= 40);
  CHECK(compared >= 20);
}

TEST_CASE("links of all pages lead somewhere", "[cli]") {
  const std::regex link("\\]\\(([^)#: ]+)(#[^) ]*)?\\)");
  std::vector<std::string> all = pages();
  all.push_back("README.md");
  size_t links = 0;
  for (const std::string& path : all) {
    const std::string text = read_text(path);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), link); at != std::sregex_iterator(); ++at, ++links) {
      const std::string target = (*at)[1];
      INFO(path << ": " << target);
      CHECK(fs::exists(target.starts_with('/') ? fs::path(target.substr(1)) : fs::path(path).parent_path() / target));
    }
  }
  CHECK(links >= 100);
}

TEST_CASE("the version stands in the changes and the citation", "[cli]") {
  const std::string line = run_cli("--version").out;  // "fp4sim 0.3.0\n"
  const std::string version = line.substr(7, line.size() - 8);
  CHECK_THAT(read_text("CHANGELOG.md"), Catch::Contains("## " + version + " (20"));
  CHECK_THAT(read_text("CITATION.cff"), Catch::Contains("\nversion: " + version + "\n"));
}
