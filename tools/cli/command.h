// A subcommand is a function `void command_<name>(CLI::App& app, Invocation& invocation)` in a file cmd_<name>.cpp
// below tools/cli, which declares its options and sets its callback, and one line in tools/main.cpp with its group and
// its doc.
#pragma once

#include <string>

// CLI11 reads 010 as 8, 0x10 as 16, -1 as 2^64 - 1 and 2^64 as 2^64 - 1. Its templates prefer these functions to their
// own because they are declared before its header, so every integer option reads decimal digits in the range of its
// type (src/text/words.h), and what is no number is answered with what is. Defined in tools/cli/usage.cpp; only
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

// "-o,--out FILE": the names of an option and what its help calls the value, where it has a word for it; "--recipes
// RECIPE,..": a list split by commas.
template <class T>
CLI::Option* option(CLI::App& app, const std::string& words, T& value, const std::string& doc) {
  const size_t blank = words.find(' ');
  CLI::Option* made = app.add_option(words.substr(0, blank), value, doc);
  if (blank != std::string::npos) made->type_name(words.substr(blank + 1));
  return words.ends_with(",..") ? made->delimiter(',') : made;
}

// The same of one whose help says what `value` is without it.
template <class T>
CLI::Option* defaulted(CLI::App& app, const std::string& words, T& value, const std::string& doc) {
  return option(app, words, value, doc)->capture_default_str();
}

// The example shown below the options of --help.
inline void set_example(CLI::App& app, const std::string& lines) { app.footer("Example:\n  " + lines); }

}  // namespace fp4::tools
