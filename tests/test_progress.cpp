// The line of progress: what it says at a given state, how calm it is off a terminal, and how lively on one (through a
// pseudo-terminal, as a user sees it).
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <regex>
#include <sstream>

#include "tests/support/support.h"
#include "tools/cli/progress_line.h"

using namespace fp4::tools;

TEST_CASE("a line of progress names count, rate and time left, and never passes its width", "[quick]") {
  const ProgressState state = {.done = 12, .all = 48, .count = "12/48", .more = "loss 2.3142"};
  CHECK(progress_text(state, "3 steps/s", 12, 79) ==
        "[######..................] 12/48  3 steps/s  12 s left  loss 2.3142");
  CHECK(progress_text(state, "3 steps/s", 12, 40) == "[##........] 12/48  3 steps/s  12 s left");
  CHECK(progress_text({.done = 5, .all = 0, .count = "5", .more = "\033[2J"}, "", -1, 79) ==
        "[........................] 5  \\x1b[2J");
}

namespace {

struct Watched {
  std::string text;
  int exit_code = 0;
  double longest_pause = 0;  // s between two pieces of text, from the first to the last
};

// A command whose stderr is a terminal of 80 columns.
Watched on_a_terminal(const std::string& command) {
  int terminal = -1;
  winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  using Clock = std::chrono::steady_clock;
  Watched watched;
  Clock::time_point last = {};
  char bytes[4096];
  for (ssize_t n = 0; (n = read(terminal, bytes, sizeof bytes)) > 0;) {
    const auto now = Clock::now();
    if (!watched.text.empty())
      watched.longest_pause = std::max(watched.longest_pause, std::chrono::duration<double>(now - last).count());
    last = now;
    watched.text.append(bytes, static_cast<size_t>(n));
  }
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  watched.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return watched;
}

}  // namespace

TEST_CASE("a terminal sees a training twice a second, on one line of less than 80 columns", "[cli]") {
  const Watched watched =
      on_a_terminal(fp4::test::fp4sim_path() + " train --task classifier --recipe mxfp4 --steps 3000 > /dev/null");
  CHECK(watched.exit_code == 0);
  CHECK(watched.longest_pause < 0.5);
  std::vector<std::string> lines;
  std::string line;
  for (const char c : watched.text) {
    if (c != '\r' && c != '\n') {
      line += c;
      continue;
    }
    if (!line.empty()) lines.push_back(line);
    line.clear();
  }
  REQUIRE(lines.size() >= 2);
  // The time left is what is left by the rate beside it, to the digits shown.
  const std::regex form(R"(\[[#.]{24}\] (\d+)/3000  (\d+) steps/s  (\d+\.\d) s left  loss \d.*)");
  size_t read = 0;
  for (std::string shown : lines) {
    if (const size_t end = shown.find("\033[K"); end != std::string::npos) shown.resize(end);
    INFO(shown);
    CHECK(shown.size() < 80);
    std::smatch m;
    if (!std::regex_match(shown, m, form)) continue;
    ++read;
    const double left = (3000 - std::stod(m[1])) / std::stod(m[2]);
    CHECK(std::stod(m[3]) == Approx(left).margin(0.3 + 0.05 * left));
  }
  CHECK(read >= 1);
  CHECK_THAT(lines.back(), Catch::Contains("] 3000/3000") && Catch::Contains("  in "));
}

TEST_CASE("a pipe gets a line at each tenth, without codes of a terminal", "[cli]") {
  const auto result = fp4::test::run_cli("train --task classifier --recipe mxfp4 --steps 200");
  REQUIRE(result.exit_code == 0);
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 11);  // the first step, and ten tenths
  CHECK(result.err.find_first_of("\r\033") == std::string::npos);
  CHECK_THAT(result.err, Catch::Contains("] 1/200") && Catch::Contains("] 20/200") && Catch::Contains("] 200/200"));
  const auto dumb = on_a_terminal("TERM=dumb " + fp4::test::fp4sim_path() +
                                  " train --task classifier --recipe mxfp4 --steps 200 >/dev/null");
  CHECK(dumb.text.find('\033') == std::string::npos);
}

TEST_CASE("what a sweep says of its stages fits a terminal of 80 columns", "[cli]") {
  const fp4::test::TemporaryFolder folder;
  fp4::test::write_text(folder / "grid.json", R"({"name": "g", "task": "classifier", "seeds": 1, "train": {"steps": 5},
    "axes": {"recipe": ["mxfp4", "mxfp8"]}, "tune": {"train.lr": {"rungs": 2, "seeds": 1}}})");
  const Watched watched = on_a_terminal(fp4::test::fp4sim_path() + " sweep run " + folder / "grid.json" + " --out " +
                                        folder / "out" + " > /dev/null");
  CHECK(watched.exit_code == 0);
  CHECK_THAT(watched.text, Catch::Contains("runs at best: 2 configurations at their own best"));
  std::istringstream lines(watched.text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("runs at best");  // behind what ends the line of progress
    if (at == std::string::npos) continue;
    line = line.substr(at, line.find('\r', at) - at);
    INFO(line);
    CHECK(line.size() <= 80);
  }
}
