// Decides: which values of options are refused whatever the command (integers that are not decimal, empty words), how
// options are refused that would do nothing, and the message of a wrong command line: its place, the offending word and
// the accepted ones.
#pragma once

#include <initializer_list>
#include <string>

#include "tools/cli/command.h"

namespace fp4::tools {

/// An empty value is a mistake for every option: --resume "$UNSET" would start from the beginning without a word.
void refuse_empty_values(CLI::App& app);

/// Error for the first of these options that was given, where none of them would do anything: "quantize: --tensors
/// belongs to --scheme", with `owner` as what it belongs to.
void refuse_options(const CLI::App& command, std::initializer_list<const char*> options, const std::string& owner);

/// --as text|markdown|csv for every command that prints tables, which are those with --json.
void add_table_forms(CLI::App& app);

std::string usage_message(const CLI::App& app, const CLI::ParseError& error);

}  // namespace fp4::tools
