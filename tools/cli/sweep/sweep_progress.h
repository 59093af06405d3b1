// Progress of a sweep: runs, the share of the work (runs differ in cost), and what went wrong.
#pragma once

#include "sweeps/engine/run_list.h"
#include "sweeps/explore/sweep.h"
#include "tools/cli/progress_line.h"

namespace fp4::tools {

class SweepProgress {
 public:
  explicit SweepProgress(bool quiet);
  void stage(const sweeps::Stage& stage, size_t missing);
  void update(const sweeps::Progress& progress);
  void finish();  // ends the line that is being rewritten

 private:
  bool quiet_;
  ProgressLine line_;
};

}  // namespace fp4::tools
