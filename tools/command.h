// What a subcommand is: a name, one line of help and a function that declares its options and sets its callback.
// A new one is a file tools/cmd_<name>.cpp that defines `Command command_<name>()`, and one line in tools/main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace fp4::tools {

struct Invocation {
  std::string command_line;  // as it would be typed, for manifests and provenance
  int exit_code = 0;         // a callback sets 1 when a comparison mismatched; errors are thrown (src/error.h)
};

struct Command {
  const char* name;
  const char* doc;
  void (*add)(CLI::App& app, Invocation& invocation);
};

// The example shown below the options of --help.
inline void set_example(CLI::App& app, const std::string& lines) { app.footer("Example:\n  " + lines); }

}  // namespace fp4::tools
