#include "tools/cli/sweep/law_input.h"

#include <fmt/core.h>

#include <filesystem>
#include <span>

#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/text/input_file.h"
#include "sweeps/engine/runs_csv.h"
#include "sweeps/judge/results.h"

namespace fp4 {
std::span<const EmbeddedFile> ladder_data();  // made by fp4_embed
}

namespace fp4::tools {

static std::vector<sweeps::RunRow> rows_of(const std::string& path, LadderRuns& ladder) {
  if (path == built_in_ladder) {
    std::vector<sweeps::RunRow> rows;
    for (const EmbeddedFile& file : ladder_data())
      for (sweeps::RunRow& row : sweeps::parse_runs_csv(std::string(file.content), path))
        rows.push_back(std::move(row));
    return rows;
  }
  if (!std::filesystem::is_directory(path)) return sweeps::parse_runs_csv(read_file(path), path);
  const sweeps::Store store = sweeps::Store::read(path);
  if (!store.meta("recipes").empty()) ladder.recipes = sweeps::stored_grid(store).recipes;
  return sweeps::parse_runs_csv(sweeps::runs_csv(store), path);
}

LadderRuns read_ladder(const std::string& path) {
  LadderRuns ladder;
  std::map<std::string, size_t> diverged;
  std::map<std::tuple<std::string, double, double>, std::string> hashes;
  for (const sweeps::RunRow& row : rows_of(path, ladder)) {
    if (row.recipe.empty() || row.run.role == sweeps::Role::tune) continue;
    if (!row.run.loss) {
      ++ladder.diverged, ++diverged[row.recipe];
      continue;
    }
    const double n = measured(row.run, "weights").value_or(0), d = measured(row.run, "tokens").value_or(0);
    if (!(n > 0) || !(d > 0)) continue;
    const auto [entry, is_new] = hashes.try_emplace({row.recipe, n, d}, row.run.hash);
    if (!is_new && entry->second != row.run.hash)
      throw Error(
          fmt::format("{}: recipe '{}' has two configurations at N {:.4g}, D {:.4g} ({} and {}); a law needs one",
                      row.place, row.recipe, n, d, entry->second, row.run.hash));
    const int steps = static_cast<int>(row.run.curve.step.empty() ? 0 : row.run.curve.step.back());
    ladder.points[row.recipe].push_back({n, d, row.run.seed, *row.run.loss, steps});
  }
  if (ladder.points.empty())
    throw Error(path + ": no finished run has the metrics `weights` and `tokens`; a law needs runs of the task lm");
  for (const auto& [recipe, count] : diverged)
    if (!ladder.points.contains(recipe)) ladder.left_out.push_back(recipe);
  return ladder;
}

}  // namespace fp4::tools
