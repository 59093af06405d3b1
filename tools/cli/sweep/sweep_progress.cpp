#include "tools/cli/sweep/sweep_progress.h"

#include <fmt/core.h>

#include <cmath>

#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

// One unit from the first line to the last: lines of one sweep can then be compared.
SweepProgress::SweepProgress(bool quiet)
    : quiet_(quiet), line_(quiet, [](double rate) {
        const double a_minute = rate * 60;
        return a_minute < 10 ? fmt::format("{:.2g} %/min", a_minute) : fmt::format("{:.0f} %/min", a_minute);
      }) {}

void SweepProgress::stage(const sweeps::Stage& stage, size_t missing) {
  if (quiet_) return;
  line_.restart();
  for (const std::string& note : stage.notes) say_wrapped(stage.name, note);
  say("{}: {} runs, {} to do\n", stage.name, stage.jobs.size(), missing);
}

void SweepProgress::update(const sweeps::Progress& p) {
  if (quiet_) return;
  // The bar is the share of the cost, because the last runs are the small ones.
  const double share = p.done == p.total ? 100 : p.cost_total > 0 ? 100 * p.cost_done / p.cost_total : 0;
  std::string more = p.diverged > 0 ? fmt::format("{} diverged", p.diverged) : "";
  if (p.failed > 0) more = fmt::format("{} failed{}{}", p.failed, more.empty() ? "" : "  ", more);
  line_.update({.done = share,
                .all = 100,
                .count = fmt::format("{}/{} runs, {:.0f} %", p.done, p.total, std::floor(share)),
                .more = more});
}

void SweepProgress::finish() { line_.finish(); }

}  // namespace fp4::tools
