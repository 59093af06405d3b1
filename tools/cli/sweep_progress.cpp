// See sweep_progress.h.
#include "tools/cli/sweep_progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include "tools/cli/streams.h"
#include "tools/cli/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

SweepProgress::SweepProgress(bool quiet, const std::vector<sweeps::RunRecord>& known)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {
  for (const sweeps::RunRecord& run : known) {
    if (run.role == sweeps::Role::reference && run.loss) losses_[{run.hash, run.seed}] = *run.loss;
  }
}

void SweepProgress::stage(const sweeps::Stage& stage, size_t missing) {
  for (const sweeps::Job& job : stage.jobs) context_[job.config->hash] = {job.config->reference, job.config->task};
  shown_ = -1e9;
  if (quiet_) return;
  finish();
  for (const std::string& note : stage.notes) say("{}: {}\n", stage.name, printable(note));
  say("{}: {} runs, {} to do\n", stage.name, stage.jobs.size(), missing);
}

// Least gap of a single run so far: something to look at, not a result.
void SweepProgress::watch_best(const sweeps::RunRecord& run) {
  if (!run.loss) return;
  if (run.role == sweeps::Role::reference) {
    losses_[{run.hash, run.seed}] = *run.loss;
    return;
  }
  const auto context = context_.find(run.hash);
  if (context == context_.end()) return;
  const auto reference = losses_.find({context->second.first, run.seed});
  if (reference == losses_.end()) return;
  const double gap = *run.loss - reference->second;
  if (!best_text_.empty() && gap >= best_) return;
  best_ = gap;
  best_text_ = fmt::format("best gap {:+.4f} ({} {})", gap, context->second.second, run.hash.substr(0, 8));
}

void SweepProgress::update(const sweeps::Progress& p) {
  watch_best(*p.last);
  if (quiet_) return;
  const bool last = p.done == p.total;
  if (!last && p.seconds - shown_ < (terminal_ ? 0.2 : 10)) return;
  shown_ = p.seconds;
  const double rate = p.seconds > 0 ? static_cast<double>(p.done) / p.seconds : 0;
  const double left = p.cost_done > 0 ? p.seconds * (p.cost_total - p.cost_done) / p.cost_done : 0;
  constexpr size_t width = 24;
  const size_t filled = p.total == 0 ? width : p.done * width / p.total;
  std::string line = fmt::format("[{}{}] {}/{}  {:.1f} runs/s  {} left", std::string(filled, '#'),
                                 std::string(width - filled, '.'), p.done, p.total, rate, duration(left));
  if (p.diverged > 0) line += fmt::format("  {} diverged", p.diverged);
  if (p.failed > 0) line += fmt::format("  {} failed", p.failed);
  if (!best_text_.empty()) line += "  " + best_text_;
  say("{}{}{}", terminal_ ? "\r\033[K" : "", line, terminal_ ? "" : "\n");
  open_line_ = terminal_;
}

void SweepProgress::finish() {
  if (open_line_) say("\n");
  open_line_ = false;
}

}  // namespace fp4::tools
