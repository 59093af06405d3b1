// A sweep's store as statistics see it: configurations with their runs, gaps to the fp32 run of the same task, training
// and seed, and what each axis says of each configuration.
#pragma once

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "sweeps/engine/store.h"
#include "sweeps/grid/grid.h"
#include "sweeps/judge/rungs.h"

namespace fp4::sweeps {

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

enum class Metric : uint8_t { loss, loss_hp };

// The grid whose runs a store holds, with the recipes of its files. Throws Error when there is none yet.
Grid stored_grid(const Store& store);
// The same of its texts: a grid file and the recipes that it names by file ("" for none). `place` opens messages.
Grid grid_of_texts(const std::string& text, const std::string& recipes, const std::string& place);

struct ConfigResult {
  ConfigRecord record;
  std::vector<std::string> labels;      // one per axis; "" where the axis is dead for it or does not apply
  std::vector<RunRecord> runs;          // by seed
  bool in_plan = true;                  // false: only a reference
  std::vector<ConfigResult> near = {};  // of a tuned one: the same at other rungs of its ladder, by hash

  std::string_view context() const { return record.reference; }
  const RunRecord* run(uint64_t seed) const;
  // By number in `Results::losses`: itself, then those near.
  const ConfigResult& rung(size_t number) const { return number == 0 ? *this : near[number - 1]; }
};

class Results {
 public:
  // Throws Error when the store holds a digest conflict: numbers that contradict each other are not averaged.
  explicit Results(const Store& store, bool with_curves = false);
  // From parts, for planning and tests. The configurations may come in any order.
  Results(const Grid& grid, std::vector<std::string> axes, std::vector<ConfigRecord> configs,
          std::vector<PointRecord> points, std::vector<ConfigRecord> references, std::vector<RunRecord> runs);

  const Grid& grid() const { return grid_; }
  const std::vector<std::string>& axes() const { return axes_; }
  const std::vector<ConfigResult>& configs() const { return configs_; }  // by (task, hash), without rungs near a best
  const std::vector<PointRecord>& points() const { return points_; }
  const ConfigResult* find(const std::string& hash) const;
  bool is_confirm(uint64_t seed) const { return grid_.race && grid_.race->has(seed); }  // of a race

  // Losses on these seeds at the rungs that a configuration is judged at, its best first: NaN where it did not run,
  // infinite where it diverged.
  static RungLosses losses(const ConfigResult& config, const std::vector<uint64_t>& seeds, Metric metric);
  // The seeds that some rung of a configuration ran on, those of tuning left out.
  static std::set<uint64_t> seeds_of(const ConfigResult& config);
  // Whether two configurations were judged at different values of a tuned field.
  bool rates_differ(const ConfigResult& a, const ConfigResult& b) const;

  // Loss of the run minus that of the fp32 run with its seed; none when either is missing or has no loss.
  std::optional<double> gap(const ConfigResult& config, const RunRecord& run, Metric metric = Metric::loss) const;
  // The gaps over the seeds of the race, or over the others, in the order of the seeds.
  std::vector<double> gaps(const ConfigResult& config, bool confirm, Metric metric = Metric::loss) const;
  // Those of both: what a delta is a share of. It may use the seeds that it then judges, since the intervals of a race
  // hold whatever delta is.
  std::vector<double> all_gaps(const ConfigResult& config, Metric metric = Metric::loss) const;
  // A recipe as its name says, with no axis on top of it; references are.
  bool is_plain(const ConfigResult& config, std::string_view recipe) const;
  // Whether any run of these seeds diverged or failed to have a loss.
  static bool diverged(const ConfigResult& config);

 private:
  void build(std::vector<ConfigRecord> configs, std::vector<RunRecord> runs);
  void gather_rungs();

  Grid grid_;
  std::vector<std::string> axes_;
  std::vector<ConfigResult> configs_;
  std::vector<PointRecord> points_;
  std::unordered_map<std::string, size_t> index_;
};

std::optional<double> metric_of(const RunRecord& run, Metric metric);

}  // namespace fp4::sweeps
