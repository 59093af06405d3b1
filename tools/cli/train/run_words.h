// Decides: how a run is described in words: --task, --recipe, --set path=value, --steps, --seed, --text, --images,
// --labels. Paths name a recipe field (wgrad.*.rounding), a training setting (lr) or a task parameter
// (outliers.token); task., train. and recipe. in front settle any doubt.
#pragma once

#include <string>
#include <vector>

#include "sim/rules/config.h"
#include "tools/cli/command.h"

namespace fp4::tools {

struct RunWords {
  std::string task, recipe = "mxfp4", text, images, labels, backend = "auto";
  std::vector<std::string> sets;
  int steps = 0, threads = 1;
  uint64_t seed = 1;
  CLI::Option *task_option = nullptr, *recipe_option = nullptr, *seed_option = nullptr;

  void add(CLI::App& app);
  /// The canonical configuration; throws Error for unknown words and for a field that is given twice. `from`: the
  /// sections of another one, for what the words do not say.
  sim::Json config(const sim::Json& from = sim::Json::object()) const;
};

// Lays FIELD=VALUE, the words of --set, over the object of a recipe. Throws Error for a path that is no recipe's and
// for one that is given twice.
void lay_over(sim::Json& recipe, const std::vector<std::string>& words);

}  // namespace fp4::tools
