// The subcommands of `fp4sim sweep` that live in a file of their own: what folders hold, and putting them together.
#pragma once

#include "tools/cli/command.h"

namespace fp4::tools {

void add_sweep_status(CLI::App& app, Invocation& invocation);
void add_sweep_merge(CLI::App& app, Invocation& invocation);
void add_sweep_check(CLI::App& app, Invocation& invocation);
void add_sweep_export(CLI::App& app, Invocation& invocation);
void add_sweep_import(CLI::App& app, Invocation& invocation);

}  // namespace fp4::tools
