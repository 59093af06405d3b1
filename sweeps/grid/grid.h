// A grid: which configurations an experiment asks for. A JSON file with a product of axes, exclusions and inclusions,
// seeds and the way to explore; read, checked and expanded here into distinct configurations.
//
// Axes, in the order of the file (which is the order of table columns):
// - recipe: names of recipes, or objects laid over the base or, with a key "base", over the recipe that it names
// - fprop, dgrad, wgrad: a whole GEMM, as RECIPE.GEMM or an object laid over the base's GEMM
// - wgrad.*.rounding and the like: a path into the recipe; x|y = both, * = both operands (first, or `all`: all GEMMs)
// - task.NAME.path, task.*.path: a task parameter
// - train.path: a training setting
// - branch, from the grid's field of that name: the trunk that a configuration leaves, and where
// - eval, from the grid's field of that name: the recipe that the trained network is judged under
//
// An object value may carry "label", its word in tables; {"label": "on"} alone changes nothing. `recipe` is applied
// first, the others in file order: a whole GEMM after the paths switches off what they set.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/json_reader.h"
#include "sweeps/grid/tuning.h"
#include "sweeps/training.h"

namespace fp4::sweeps {

enum class AxisKind : uint8_t { recipe, gemm, path, task, train, branch, eval };

struct Axis {
  std::string path;
  AxisKind kind = AxisKind::path;
  std::vector<Json> values;
  std::vector<std::string> labels;
  std::string place;                // "grid g.json: axes.recipe": opens messages
  std::vector<std::string> places;  // of the values: "grid g.json: axes.recipe[0]"
};

// A point on top of the product.
struct Inclusion {
  std::vector<std::string> tasks;
  std::vector<Axis> axes;  // of one value each
};

enum class Explore : uint8_t { all, importance };

// Runs of a race have the seeds 1001, 1002, ..
inline constexpr uint64_t first_race_seed = 1001;

// How long candidates race for places on the front (judge/race.h).
struct RaceSettings {
  size_t seeds = 320;           // of the last round
  std::optional<double> hours;  // of computing on one core, after which no further round starts
  // The smallest difference of losses that matters: a share of mxfp4's gap, or `delta` in losses, for all tasks and by
  // task; what is given by task goes before what is given for all, `delta` before `share`.
  double share = 0.02;
  std::optional<double> delta;
  std::map<std::string, double> share_of_task, delta_of_task;
  // 10, 20, 40, .. and at last `seeds`.
  std::vector<size_t> rounds() const;
  bool has(uint64_t seed) const { return seed >= first_race_seed && seed - first_race_seed < seeds; }
  // delta on a task whose mxfp4 has this gap (none: no mxfp4 there, and a share of nothing is 0).
  double delta_on(const std::string& task, std::optional<double> gap) const;
};

struct Grid {
  std::string place;   // "grid g.json": opens messages
  std::string folder;  // of the file, "" = the current one: where recipes lie that the current folder does not have
  std::string name;    // a plain word, which may name a folder
  std::string doc;
  std::vector<std::string> tasks;
  Json base;  // a recipe's name, or an object {"recipe": NAME, paths...}
  std::vector<Axis> axes;
  Json train = Json::object();                // settings of all tasks
  std::map<std::string, Json> train_of_task;  // on top, by task
  std::vector<std::map<std::string, Json>> exclude;
  std::vector<Inclusion> include;
  std::vector<uint64_t> seeds;
  Explore explore = Explore::all;
  size_t sample = 0;  // importance: N
  std::vector<TunedField> tune;
  double tune_best = 0;  // > 0: this share of what was explored at fixed values is tuned; 0: everything, before it runs
  std::optional<RaceSettings> race;
  std::vector<std::string> references = {"fp32", "bf16"};
  std::vector<std::string> hardware = {"b200"};  // whose fronts choose the candidates of the race
  std::string model = "llama3_8b";
  size_t candidates = 60;  // most candidates of a task and chip that race
  Json source;             // the file
  // Of a grid that comes from a store: the recipes that it names by file, in full, by its words for them.
  std::map<std::string, Json> recipes;

  // What was raced at one rung, or at rungs too far apart, has no words; such sweeps of old are read as a screening.
  bool may_race() const;
};

// The file that a word for a recipe leads to, PATH.json of PATH.json and of PATH.json@GEMM; "" for none.
std::string_view file_of_recipe(std::string_view word);
bool names_file(std::string_view recipe);

// Reads and checks the structure (unknown keys, empty axes, bad seeds); values are checked by `expand`, with the
// trainer's own schema. `place` opens messages.
Grid parse_grid(const std::string& text, const std::string& place, FieldNotes* notes = nullptr);

// A tuned grid at a fixed value, for what the same comparison says where nobody has a learning rate of its own: the
// text of a grid in which each field of `fixed` ("train.lr=0.002", value a JSON number) is an axis of that one value
// instead of a ladder; a grid without a ladder left has no "tune_best" either. `place` opens messages. Throws Error for
// a field that the grid does not tune, naming those that it does.
std::string at_fixed(const std::string& text, const std::string& place, std::span<const std::string> fixed);

// What became of the product, for people.
struct Counts {
  size_t product = 0;
  size_t excluded = 0;
  std::map<std::string, size_t> impossible;  // by reason
  size_t included = 0;
  size_t duplicates = 0;
  std::map<std::string, size_t> equal_values;  // "AXIS: '0' and 'null'": points at which they mean the same
  size_t distinct = 0;
};

// One machine's points of a grid that is dealt by the numbers of its points; 1 of 1 is all.
struct Part {
  size_t index = 1, count = 1;
};

struct Plan {
  std::vector<std::string> axes;
  std::vector<ConfigRecord> configs;  // distinct, by (task, hash); references not among them unless the grid names them
  std::vector<PointRecord> points;
  std::vector<size_t> numbers;                     // of the points, from 1 on: rows of a store that holds a part
  std::map<std::string, ConfigRecord> references;  // by hash: fp32 and the grid's other references
  std::map<std::string, std::vector<std::string>>
      context;                          // fp32 hash -> reference hashes of the same task and training
  std::map<std::string, Json> recipes;  // that the grid names by file, in full, by its words for them
  Counts counts;
};

// Looks at the points of the part alone.
Plan expand(const Grid& grid, const Simulator& simulator, Part part = {});
// Whether all runs are known from the start: neither sampled nor tuned nor raced.
bool has_one_stage(const Grid& grid);
// Whether shards take points by number: one stage, and so many points that each machine had to look at all for seconds.
bool is_dealt_by_number(const Grid& grid);

// A number in [0, 1) and an order by content: the same on every machine (SHA-256 of the joined texts).
double uniform_hash(const std::string& salt, const std::string& name, const std::string& hash);

}  // namespace fp4::sweeps
