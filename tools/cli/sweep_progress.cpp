// See sweep_progress.h.
#include "tools/cli/sweep_progress.h"

#include <fmt/core.h>

#include <cmath>

#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

SweepProgress::SweepProgress(bool quiet, const std::vector<sweeps::RunRecord>& known)
    : quiet_(quiet), line_(quiet, [](double rate) {
        return rate < 1.0 / 60 ? fmt::format("{:.2g} %/h", rate * 3600)
               : rate < 1.6    ? fmt::format("{:.2g} %/min", rate * 60)
               : rate < 99     ? fmt::format("{:.2g} %/s", rate)
                               : fmt::format("{:.0f} %/s", rate);
      }) {
  for (const sweeps::RunRecord& run : known) {
    if (run.role == sweeps::Role::reference && run.loss) losses_[{run.hash, run.seed}] = *run.loss;
  }
}

void SweepProgress::stage(const sweeps::Stage& stage, size_t missing) {
  for (const sweeps::Job& job : stage.jobs) context_[job.config->hash] = {job.config->reference, job.config->task};
  if (quiet_) return;
  line_.restart();
  for (const std::string& note : stage.notes) say_wrapped(stage.name, note);
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
  // The bar is the share of the cost, because the last runs are the small ones.
  const double share = p.done == p.total ? 100 : p.cost_total > 0 ? 100 * p.cost_done / p.cost_total : 0;
  std::string more = best_text_;
  if (p.diverged > 0) more = fmt::format("{} diverged  {}", p.diverged, more);
  if (p.failed > 0) more = fmt::format("{} failed  {}", p.failed, more);
  line_.update({.done = share,
                .all = 100,
                .count = fmt::format("{}/{} runs, {:.0f} %", p.done, p.total, std::floor(share)),
                .more = more});
}

void SweepProgress::finish() { line_.finish(); }

}  // namespace fp4::tools
