// Progress of a sweep: runs, the share of the work (runs differ in cost), what went wrong and the least gap so far.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sweeps/engine/run.h"
#include "sweeps/explore/sweep.h"
#include "tools/cli/progress_line.h"

namespace fp4::tools {

class SweepProgress {
 public:
  SweepProgress(bool quiet, const std::vector<sweeps::RunRecord>& known);
  void stage(const sweeps::Stage& stage, size_t missing);
  void update(const sweeps::Progress& progress);
  void finish();  // ends the line that is being rewritten

 private:
  void watch_best(const sweeps::RunRecord& run);

  bool quiet_;
  ProgressLine line_;
  std::map<std::pair<std::string, uint64_t>, double> losses_;           // of references
  std::map<std::string, std::pair<std::string, std::string>> context_;  // config hash -> reference hash, task
  double best_ = 0;
  std::string best_text_;
};

}  // namespace fp4::tools
