#include "src/cpu/quantize/engine_table.h"

namespace fp4::cpu {
namespace {

UseCounter engine_counters[std::size(quantize_engine_table)];

}  // namespace

PanelCounts panel_counts() {
  PanelCounts counts;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = engine_counters[i].read();
  return counts;
}

void reset_panel_counts() {
  for (UseCounter& c : engine_counters) c.reset();
}

void count_panels(QuantizeEngine engine, int64_t offered, int64_t taken) {
  engine_counters[static_cast<size_t>(engine)].count(offered, taken);
}

void count_declined(QuantizeEngine engine, const char* reason) {
  engine_counters[static_cast<size_t>(engine)].decline(reason);
}

}  // namespace fp4::cpu
