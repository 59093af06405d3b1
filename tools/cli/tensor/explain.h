// `--explain`: which gemm kernels a command's products went through (src/cpu/gemm/kernel_table.h), and which engines
// quantised (src/cpu/quantize/engine_table.h), as oneDNN's verbose mode tells; what a backend without tiles did is not
// in it.
#pragma once

#include <string>

#include "src/cpu/gemm/kernel_table.h"
#include "src/cpu/quantize/engine_table.h"
#include "tools/cli/options.h"

namespace fp4::tools {

void add_explain_option(CLI::App& app, bool& explains);

// "level 96 %, int8 4 %": shares of the tiles since the last reset; "-" for none.
std::string kernel_shares(const cpu::TileCounts& counts);

// The table of kernels: tiles offered and taken, and why the others were not asked.
void print_kernels(const cpu::TileCounts& counts);

// The same of the engines that quantise, in panels of 16 rows.
void print_engines(const cpu::PanelCounts& counts);

}  // namespace fp4::tools
