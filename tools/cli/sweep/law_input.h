// The runs of a ladder of sizes, from a sweep's folder or a table of `sweep export`, as a scaling law takes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sweeps/judge/law.h"
#include "sweeps/training.h"

namespace fp4::tools {

struct LadderRuns {
  std::map<std::string, std::vector<sweeps::LawPoint>> points;  // by recipe
  size_t diverged = 0;                                          // runs without a loss, left out
  std::vector<std::string> left_out;                            // recipes of which every run diverged
  std::map<std::string, sweeps::Json> recipes;                  // those of files, in full, where a store has them
};

/// The word for the ladder that the program carries: runs.csv and held_out.csv of results/ladder_fixed.
inline constexpr const char* built_in_ladder = "built-in";

/// `path`: a sweep's folder, a table, or `built_in_ladder`. Finished runs that have the metrics `weights` and `tokens`
/// (task lm). Throws Error where none has, or where two configurations of one recipe stand at one (N, D): then the
/// recipe's name does not say which was meant.
LadderRuns read_ladder(const std::string& path);

}  // namespace fp4::tools
