// What a subcommand is: a name, one line of help and a function that declares its options and sets its callback.
// A new one is a file tools/cli/cmd_<name>.cpp that defines `Command command_<name>()`, and one line in tools/main.cpp.
#pragma once

#include <string>

// CLI11 reads 010 as 8, 0x10 as 16, -1 as 2^64 - 1 and 2^64 as 2^64 - 1. Its templates prefer these functions to their
// own because they are declared before its header, so every integer option reads decimal digits in the range of its
// type (src/text/integer_text.h), and what is no number is answered with what is. Defined in tools/cli/usage.cpp; only
// this file includes CLI11.
namespace CLI::detail {
bool lexical_cast(const std::string& text, int& value);
bool lexical_cast(const std::string& text, unsigned& value);
bool lexical_cast(const std::string& text, long& value);
bool lexical_cast(const std::string& text, unsigned long& value);
bool lexical_cast(const std::string& text, long long& value);
bool lexical_cast(const std::string& text, unsigned long long& value);
bool lexical_cast(const std::string& text, float& value);
bool lexical_cast(const std::string& text, double& value);
}  // namespace CLI::detail

#include <CLI/CLI.hpp>

namespace fp4::tools {

struct Invocation {
  std::string command_line;  // as it would be typed, for manifests and provenance
  int exit_code = 0;         // a callback sets 1 when a comparison mismatched; errors are thrown (src/text/error.h)
};

struct Command {
  const char* name;
  const char* doc;
  void (*add)(CLI::App& app, Invocation& invocation);
};

// The example shown below the options of --help.
inline void set_example(CLI::App& app, const std::string& lines) { app.footer("Example:\n  " + lines); }

}  // namespace fp4::tools
