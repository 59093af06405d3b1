#include "tools/cli/tensor/explain.h"

#include <fmt/core.h>

#include "src/text/words.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

void add_explain_option(CLI::App& app, bool& explains) {
  app.add_flag("--explain", explains, "Print which kernels multiplied, tile by tile, and why others declined");
}

std::string kernel_shares(const cpu::TileCounts& counts) {
  int64_t all = 0;
  for (const cpu::UseCount& c : counts) all += c.taken;
  std::string text;
  for (const auto& row : cpu::gemm_kernel_table) {
    const int64_t taken = counts[static_cast<size_t>(row.id)].taken;
    if (taken == 0) continue;
    add_word(text, fmt::format("{} {:.0f} %", row.name, 100.0 * static_cast<double>(taken) / static_cast<double>(all)));
  }
  return text.empty() ? "-" : text;
}

namespace {

template <class Infos, class Counts>
void print_uses(const char* what, const Infos& infos, const Counts& counts) {
  Table table{{what, ">offered", ">took", "what it is for, or why it declined"}, {}};
  for (const auto& row : infos) {
    const cpu::UseCount& c = counts[static_cast<size_t>(row.id)];
    const bool was_asked = c.offered > 0 || c.declined == nullptr;
    table.rows.push_back({row.name, std::to_string(c.offered), std::to_string(c.taken),
                          was_asked ? row.doc : std::string("declined: ") + c.declined});
  }
  print_table(table);
}

}  // namespace

void print_kernels(const cpu::TileCounts& counts) { print_uses("kernel", cpu::gemm_kernel_table, counts); }

void print_engines(const cpu::PanelCounts& counts) { print_uses("engine", cpu::quantize_engine_table, counts); }

}  // namespace fp4::tools
