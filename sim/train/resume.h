// Decides: which checkpoints a run may go on from. Whoever made a file may have given it any hash: what does not fit
// the run or each other would be read past its end or would wait for a step that has gone by.
#pragma once

#include <optional>
#include <string>

#include "sim/train/checkpoint.h"

namespace fp4::sim {

/// The run that goes on.
struct Continuation {
  const Json& config;  // as its checkpoints have it
  uint64_t seed;
  int steps;
  int64_t weights;
  int phases;
  size_t next_point;  // of the curve, after the checkpoint's step
};

/// Old steps under old arithmetic and new ones under new would be the result of neither: throws Error for other
/// signatures than `options`'.
void check_program(const Checkpoint& c, const RunOptions& options, const std::string& path);
/// Throws Error for the checkpoint of another seed or configuration; a branch may have another recipe and training, and
/// its parent is returned.
std::optional<Parent> check_origin(const Checkpoint& c, const Continuation& run, bool is_branch,
                                   const std::string& path);
/// Throws Error for parts that do not fit.
void check_parts(const Checkpoint& c, const Continuation& run, bool is_branch, const std::string& path);

}  // namespace fp4::sim
