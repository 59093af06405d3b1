// Decides: which values of options are refused whatever the command (integers that are not decimal, empty words), and
// the message of a wrong command line: its place, the offending word and the accepted ones.
#pragma once

#include <string>

#include "tools/cli/command.h"

namespace fp4::tools {

/// An empty value is a mistake for every option: --resume "$UNSET" would start from the beginning without a word.
void refuse_empty_values(CLI::App& app);

/// --as text|markdown|csv for every command that prints tables, which are those with --json.
void add_table_forms(CLI::App& app);

std::string usage_message(const CLI::App& app, const CLI::ParseError& error);

}  // namespace fp4::tools
