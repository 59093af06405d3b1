// A place where commands are run as a page or a help text prints them: `fp4sim` on the PATH is the program under test,
// and files that the text supposes (x.npy, golden, quick.sweep, ..) are made once and copied to where they are read.
// Two kinds of words are changed, in the table `shorter` of workshop.cpp: what would take minutes, and placeholders.
#pragma once

#include <string>
#include <vector>

#include "tests/support/support.h"

namespace fp4::test {

/// The lines of `text` without spaces at their ends.
std::vector<std::string> lines_of(const std::string& text);

/// The first line wider than 80 columns; "" where there is none. Verdicts of `verify` are single lines, for
/// grep, and a text in JSON is one word.
std::string wide_line(const std::string& text);

/// `command` with less work; the same text where it needs none.
std::string shortened(std::string command);

class Workshop {
 public:
  Workshop();

  /// A new empty folder, but for places that commands of pages write to.
  std::filesystem::path new_place();

  /// Runs a command in `place`, shortened, after what it reads and `place` lacks has been copied there.
  RunResult run_in(const std::filesystem::path& place, const std::string& command);

  /// In a folder of its own.
  RunResult run(const std::string& command) { return run_in(new_place(), command); }

 private:
  std::filesystem::path made(size_t fixture);
  RunResult in(const std::filesystem::path& place, const std::string& command);

  TemporaryFolder folder_;
  int count_ = 0;
};

}  // namespace fp4::test
