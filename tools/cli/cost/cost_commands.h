// The subcommands of `fp4sim cost` that live in files of their own.
#pragma once

#include "tools/cli/command.h"

namespace fp4::tools {

void add_cost_studies(CLI::App& app, Invocation& invocation);       // recommend, sensitivity, validate
void add_cost_measurements(CLI::App& app, Invocation& invocation);  // calibrate, measure
void add_cost_stalls(CLI::App& app, Invocation& invocation);        // stalls
void add_cost_embedding(CLI::App& app, Invocation& invocation);     // embedding
void add_cost_new_chip(CLI::App& app, Invocation& invocation);      // new-chip

}  // namespace fp4::tools
