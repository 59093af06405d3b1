// Reading a grid file: structure, seeds, axes and their labels. Unknown keys are errors, so that a misspelt "exlude"
// cannot silently run the whole product.
#include "sweeps/grid/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/rules/schedule.h"
#include "src/files/sha256.h"
#include "src/text/error.h"
#include "src/text/read_field.h"
#include "src/text/words.h"

namespace fp4::sweeps {

namespace {

constexpr int64_t most_seeds = 100'000, most_configs = 1'000'000;

// It becomes a folder's name, so it never leaves the folder it is used in and never looks like an option.
std::string plain_name(const JsonReader& value) {
  std::string name = value.text();
  const bool plain = !name.empty() && name.size() <= 100 && name[0] != '.' && name[0] != '-' &&
                     name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+@") ==
                         std::string::npos;
  if (!plain)
    value.fail(
        "a grid's name is a word of 1 to 100 letters, digits and _ . - + @ that starts with a letter, a digit, _, + "
        "or @; found " +
        shown(value.json()));
  return name;
}

// A word or a list of words.
std::vector<std::string> word_list(const JsonReader& value, std::string_view folder = "") {
  const auto word = [&](const JsonReader& entry) { return folder.empty() ? entry.text() : entry.name_in(folder); };
  if (value.notes() != nullptr) value.notes()->is_text = true;
  if (value.json().is_string()) return {word(value)};
  std::vector<std::string> words;
  for (const JsonReader& entry : value.list(1)) words.push_back(word(entry));
  return words;
}

// A count, or a list of seeds.
std::vector<uint64_t> seed_list(const JsonReader& value, uint64_t first, int64_t least) {
  std::vector<uint64_t> seeds;
  if (value.notes() != nullptr) value.notes()->say_number(static_cast<double>(least), most_seeds, /*whole=*/true);
  if (value.json().is_number()) {
    const auto count = static_cast<uint64_t>(value.integer(least, most_seeds));
    for (uint64_t i = 0; i < count; ++i) seeds.push_back(first + i);
    return seeds;
  }
  if (!value.json().is_array()) value.fail("expected a count or a list of seeds, found " + shown(value.json()));
  for (const JsonReader& entry : value.list(static_cast<size_t>(least))) {
    const auto seed =
        static_cast<uint64_t>(entry.integer(0, INT64_MAX));  // SQLite keeps integers in 63 bits and a sign
    if (contains(seeds, seed)) entry.fail("a seed twice");
    seeds.push_back(seed);
  }
  return seeds;
}

std::string label_of(JsonReader& value) {
  const Json& json = value.json();
  if (json.is_string()) return value.text();
  if (json.is_object()) {
    if (const auto label = value.find("label")) return label->text();
    if (json.contains("name") && json["name"].is_string()) return json["name"];  // of a recipe
  }
  if (json.is_array() && !json.empty() && json[0].is_number()) {
    std::string text;  // a block of [32, 32] is written 32x32 everywhere
    for (const Json& entry : json) add_word(text, entry.dump(), "x");
    return text;
  }
  return json.dump();
}

AxisKind kind_of(const std::string& path, const std::string& place) {
  if (path == "recipe") return AxisKind::recipe;
  if (path == "fprop" || path == "dgrad" || path == "wgrad") return AxisKind::gemm;
  if (!path.starts_with("task.")) return path.starts_with("train.") ? AxisKind::train : AxisKind::path;
  if (std::count(path.begin(), path.end(), '.') < 2)
    throw Error(place + ": a task parameter is task.NAME.PATH or task.*.PATH");
  return AxisKind::task;
}

void add_value(Axis& axis, JsonReader value) {
  Json json = value.json();
  std::string label = label_of(value);
  if (json.is_object()) json.erase("label");
  if ((axis.kind == AxisKind::recipe || axis.kind == AxisKind::gemm) && !json.is_string() && !json.is_object())
    value.fail("expected a word or an object laid over the base, found " + shown(json));
  if (contains(axis.labels, label)) value.fail("the value '" + label + "' occurs twice");
  if (const auto same = std::find(axis.values.begin(), axis.values.end(), json); same != axis.values.end())
    value.fail("'" + label + "' means the same as '" + axis.labels[static_cast<size_t>(same - axis.values.begin())] +
               "', which the axis has already");
  axis.values.push_back(std::move(json));
  axis.labels.push_back(std::move(label));
  axis.places.push_back(value.place());
}

Axis empty_axis(const std::string& path, const std::string& place) {
  return {.path = path, .kind = kind_of(path, place), .values = {}, .labels = {}, .place = place, .places = {}};
}

// Axes in the order of the file, which is that of table columns; `ordered` is the file with its keys in that order.
void parse_axes(Grid& grid, JsonReader axes, const nlohmann::ordered_json& ordered) {
  axes.object();
  for (const auto& [path, unread] : ordered.items()) {
    const auto values = axes.entry(path, "PATH", {"values of the axis: words, numbers, or objects with a `label`"});
    if (!values) continue;  // null
    Axis axis = empty_axis(path, values->place());
    for (const JsonReader& value : values->list(1)) add_value(axis, value);
    grid.axes.push_back(std::move(axis));
  }
}

// Every point leaves the same trunk at each mark; mark 0 is a run without one.
void parse_branch(Grid& grid, JsonReader branch) {
  const std::string recipe = branch.at("recipe", {"recipe of the steps before the mark: the trunk"}).name_in("recipes");
  Axis axis{
      .path = "branch", .kind = AxisKind::branch, .values = {}, .labels = {}, .place = branch.place(), .places = {}};
  const JsonReader marks = branch.at("at", {"marks: steps, or shares of them below 1; 0: no trunk at all"});
  std::vector<double> shares = {0};
  if (const auto distil = branch.find("distil", {"shares of the loss that follows the trunk's network, beside 0",
                                                 nullptr, "QAD: distillation from the network before FP4"}))
    for (const JsonReader& share : distil->list(1)) shares.push_back(share.number(tiny, 1));
  for (const double share : shares)
    for (const JsonReader& mark : marks.list(1)) {
      const double at = sim::share_or_count(mark, 1e9, "steps");
      if (at == 0 && share > 0) continue;
      std::string label = at == 0 ? "none" : recipe + "@" + mark.json().dump();
      if (share > 0) label += "+distil" + (share == 1 ? "" : Json(share).dump());
      if (contains(axis.labels, label)) mark.fail("the mark occurs twice");
      axis.values.push_back(at == 0 ? Json::object() : Json{{"recipe", recipe}, {"at", at}});
      if (share > 0) axis.values.back()["distil"] = share;
      axis.labels.push_back(label);
      axis.places.push_back(mark.place());
    }
  branch.finish();
  grid.axes.push_back(std::move(axis));
}

// Every trained network is judged under each of these; "own": under the recipe it was trained with.
void parse_eval(Grid& grid, const JsonReader& recipes) {
  Axis axis{.path = "eval", .kind = AxisKind::eval, .values = {}, .labels = {}, .place = recipes.place(), .places = {}};
  recipes.note_words({"own"});
  for (const JsonReader& recipe : recipes.list(1)) {
    recipe.note_form(R"({"type": "object"})");
    add_value(axis, recipe);
    if (const Json& json = axis.values.back(); json == "own")
      axis.values.back() = Json::object();
    else if (json.is_string() || json.is_object())
      axis.values.back() = Json{{"recipe", json}};
    else
      recipe.fail("expected a recipe's name, an object or `own`, found " + shown(json));
  }
  grid.axes.push_back(std::move(axis));
}

void parse_exclude(Grid& grid, const JsonReader& rules) {
  for (const JsonReader& rule : rules.list()) {
    std::map<std::string, Json>& entries = grid.exclude.emplace_back();
    for (const auto& [key, value] : rule.entries("PATH", {"values to leave out: a label or a list of labels"}))
      entries[key] = value.json();
    if (entries.empty()) rule.fail("an empty rule would exclude every point");
  }
}

void parse_include(Grid& grid, const JsonReader& points) {
  for (const JsonReader& point : points.list()) {
    Inclusion inclusion{.tasks = grid.tasks, .axes = {}};
    const auto entries = point.entries("PATH", {"value of the axis at this point; `task`: where it runs"});
    if (entries.empty()) point.fail("an empty point names nothing");
    for (const auto& [key, value] : entries) {
      if (key != "task") {
        add_value(inclusion.axes.emplace_back(empty_axis(key, value.place())), value);
        continue;
      }
      inclusion.tasks = word_list(value);
      for (const std::string& task : inclusion.tasks) accepted_index(value.place(), task, grid.tasks);
    }
    grid.include.push_back(std::move(inclusion));
  }
}

void parse_explore(Grid& grid, JsonReader value) {
  value.note_words({"all"});
  if (value.json().is_string()) {
    if (JsonReader(value.json(), value.place()).word({"all", "importance"}) != 0)
      value.fail(R"('importance' needs its number; accepted: "all" or {"importance": N})");
    return;
  }
  if (!value.json().is_object() || value.json().size() != 1)
    value.fail(R"(expected "all" or {"importance": N}, found )" + shown(value.json()));
  grid.explore = Explore::importance;
  grid.sample = static_cast<size_t>(
      value.at("importance", {"so many points, drawn where earlier ones say it matters"}).integer(1, most_configs));
  value.finish();
}

// {"train.lr": {"start": "default", "factor": 2, "rungs": 4, "seeds": 3}, ..}; fields are tuned in the file's order.
void parse_tune(Grid& grid, JsonReader fields, const nlohmann::ordered_json& ordered) {
  fields.object();
  for (const auto& [path, unread] : ordered.items()) {
    auto row = fields.entry(
        path, "PATH", {"a number of the training (train.lr) or of the recipe (wgrad.*.target), and how it is tuned"});
    if (!row) continue;  // null
    if (path.find('.') == std::string::npos || path.starts_with("task.")) {
      row->fail("a tuned field is a number of the training (train.lr) or of the recipe (wgrad.*.target)");
    }
    TunedField field{.path = path, .start = {}, .ladder = {}};
    if (const auto start = row->find("start", {"first value; `default`: the configuration's own", "default"});
        start && !start->json().is_string()) {
      start->note_words({"default"});
      field.start = start->number(tiny);
    } else if (start) {
      start->word({"default"});
    }
    read_field(*row, "factor", "from one rung to the next", field.ladder.factor, 1.01, 1000);
    read_field(*row, "rungs", "values tried before the ladder grows", field.ladder.rungs, 2, 100);
    field.ladder.parts = 2;
    if (const auto finer = row->find("finer", {"two more rungs beside the best, at the root of the factor", true}))
      field.ladder.parts = finer->boolean() ? 2 : 1;
    read_field(*row, "judged", "rungs on which a configuration is judged: its best", field.judged, 1, 5);
    read_field(*row, "seeds", "runs of each rung: seeds 2001, 2002, ..", field.seeds, 1, 1000);
    if (const auto by =
            row->find("by", {"whose loss chooses: each setting's own (setting), or that of the whole training under "
                             "the trunk's recipe, for all branches and evaluations of it (trunk)",
                             "setting"})) {
      field.by_trunk = by->word({"setting", "trunk"}) == 1;
      if (field.by_trunk && !path.starts_with("train."))
        by->fail("a trunk chooses numbers of the training (train.lr); branches have recipes of their own");
    }
    row->finish();
    grid.tune.push_back(std::move(field));
  }
  if (grid.tune.empty()) fields.fail("names no field");
}

// A number for all tasks, from 0 to `high`, or an object of one by task.
std::optional<double> number_by_task(const JsonReader& json, const std::vector<std::string>& tasks, double high,
                                     const About& about, std::map<std::string, double>& by_task) {
  const std::string most = high < huge ? fmt::format(R"(, "maximum": {:g})", high) : "";
  json.note_form(
      fmt::format(R"({{"type": "object", "additionalProperties": {{"type": "number", "minimum": 0{}}}}})", most)
          .c_str());
  if (const auto all = json.if_number(0, high)) return all;
  if (!json.json().is_object()) json.fail("expected a number or an object by task, found " + shown(json.json()));
  for (const auto& [task, own] : json.entries("TASK", about)) {
    accepted_index(json.place(), task, tasks);
    by_task[task] = own.number(0, high);
  }
  return std::nullopt;
}

RaceSettings parse_race(JsonReader value, const std::vector<std::string>& tasks) {
  RaceSettings race;
  read_field(value, "seeds", "seeds of the last round", race.seeds, 10, 1000);
  if (const auto hours =
          value.find("hours", {"computing on one core after which no further round starts; absent: no limit"}))
    race.hours = hours->number(tiny);
  if (const auto share = value.find(
          "share", {"of mxfp4's gap to fp32: the smallest difference of losses that matters; or by task", race.share}))
    race.share =
        number_by_task(*share, tasks, 1, {"share on this task", race.share}, race.share_of_task).value_or(race.share);
  if (const auto delta =
          value.find("delta", {"the same as a loss, or by task; absent, or a task left out: by `share`"}))
    race.delta = number_by_task(*delta, tasks, huge, {"delta on this task"}, race.delta_of_task);
  value.finish();
  return race;
}

// What only several keys together can get wrong.
void check_together(const Grid& grid, const JsonReader& json) {
  if (grid.tune_best > 0 && grid.tune.empty()) json.fail("tune_best: there is no `tune`");
  if (!grid.tune.empty() && grid.tune_best == 0 && grid.explore != Explore::all)
    json.fail("tune: importance explores at fixed values; give `tune_best`, the share that is then tuned");
  for (const uint64_t seed : grid.seeds)
    if (!grid.tune.empty() && seed >= first_tuning_seed)
      json.fail(fmt::format("seeds: {}: seeds from {} tune and judge nothing else", seed, first_tuning_seed));
  for (const Axis& axis : grid.axes)
    for (const TunedField& field : grid.tune)
      if (axis.path == field.path) json.fail("tune: " + field.path + " is an axis too; it can be only one of them");
  for (const uint64_t seed : grid.seeds)
    if (grid.race && grid.race->has(seed))
      json.fail(fmt::format("seeds: {}: the race runs it; the front needs fresh ones", seed));
}

}  // namespace

// long: a question for each field, in the order of the reference
Grid parse_grid(const std::string& text, const std::string& place, FieldNotes* notes) {
  Grid grid;
  grid.place = place;
  grid.source = parse_json(text, place);
  JsonReader json(grid.source, place, notes);
  grid.name = plain_name(json.at("name", {"a plain word; it names the folder of results"}));
  read_field(json, "doc", "the question in a line", grid.doc);
  grid.tasks = word_list(json.at("task", {"task or list of tasks"}));
  const auto seeds = json.find("seeds", {"how many seeds from 1, or a list of seeds", 3});
  const auto base = json.find("base", {"recipe under the axes: a name, or {\"recipe\": NAME, PATH: VALUE}", "fp32"});
  if (base) {
    base->note_words(base->notes() != nullptr ? named_json("recipes") : std::vector<std::string>());
    if (base->notes() != nullptr) base->notes()->is_text = true;
    base->note_form(R"({"type": "object"})");
  }
  grid.seeds = seeds ? seed_list(*seeds, 1, 1) : std::vector<uint64_t>{1, 2, 3};
  grid.base = base ? base->json() : Json("fp32");
  if (const auto axes =
          json.find("axes", {"what varies, by path (recipe, wgrad, wgrad.*.rounding, train.lr, task.*.depth), as "
                             "`fp4sim help` lists the fields; every combination of values is a point"}))
    parse_axes(grid, *axes, parse_json<nlohmann::ordered_json>(text, place).at("axes"));
  if (const auto branch = json.find("branch", {"trunk that every point branches from; one more axis"}))
    parse_branch(grid, *branch);
  if (const auto eval = json.find("eval", {"recipes that every trained network is judged under; one more axis"}))
    parse_eval(grid, *eval);
  if (const auto train = json.find("train", {"settings of the training of all tasks"})) grid.train = train->object();
  json.find("train.TASK",
            {"settings of one task, on top of `train`; such a key stands beside it: `train.lm`"});  // for messages, too
  for (const auto& [key, unread] : json.json().items()) {
    if (!key.starts_with("train.")) continue;
    const auto value = json.find(key);
    if (!value) continue;  // null
    const std::string task = key.substr(6);
    if (!contains(grid.tasks, task)) value->fail("the grid has no such task");
    grid.train_of_task[task] = value->object();
  }
  if (const auto exclude = json.find("exclude", {"rules; a point that agrees with all entries of one is left out"}))
    parse_exclude(grid, *exclude);
  if (const auto include = json.find("include", {"points beside the product"})) parse_include(grid, *include);
  if (const auto explore = json.find("explore", {"which points of the product run", "all"}))
    parse_explore(grid, *explore);
  if (const auto tune = json.find("tune", {"numbers that every configuration chooses for itself, in this order"}))
    parse_tune(grid, *tune, parse_json<nlohmann::ordered_json>(text, place).at("tune"));
  if (const auto share =
          json.find("tune_best", {"share of the explored configurations that is tuned; absent: all, before they run"}))
    grid.tune_best = share->number(1e-6, 1);
  if (const auto race = json.find("race", {"fresh seeds from 1001 until the front is decided"}))
    grid.race = parse_race(*race, grid.tasks);
  if (const auto references = json.find("references", {"recipes that run on every task; fp32 always", grid.references}))
    grid.references = word_list(*references, "recipes");
  if (const auto hardware = json.find("hardware", {"chips whose fronts choose the candidates", grid.hardware}))
    grid.hardware = word_list(*hardware, "hardware");
  if (const auto model = json.find("model", {"model size for the costs", grid.model}))
    grid.model = model->name_in("models");
  read_field(json, "candidates", "most candidates of a task and chip", grid.candidates, 1, most_configs);
  json.finish();
  if (!contains(grid.references, "fp32"))
    grid.references.insert(grid.references.begin(), "fp32");  // every gap is measured from it
  check_together(grid, json);
  return grid;
}

std::string at_fixed(const std::string& text, const std::string& place, std::span<const std::string> fixed) {
  if (fixed.empty()) return text;
  using Ordered = nlohmann::ordered_json;
  auto grid = parse_json<Ordered>(text, place);
  for (const std::string& word : fixed) {
    const std::string here = "--fixed '" + word + "'";
    const size_t equals = word.find('=');
    const std::string path = word.substr(0, equals);
    Ordered value;
    if (equals != std::string::npos) value = parse_json<Ordered>(word.substr(equals + 1), here);
    if (!value.is_number()) throw Error(here + ": expected PATH=NUMBER such as train.lr=0.002");
    if (!grid.is_object() || !grid.contains("tune") || !grid["tune"].is_object())
      throw Error(here + ": " + place + " tunes no field");
    Ordered& tune = grid["tune"];
    std::vector<std::string> tuned;
    for (const auto& [name, ladder] : tune.items()) tuned.push_back(name);
    if (!tune.contains(path)) throw unknown_word(here, path, tuned);
    tune.erase(path);
    if (tune.empty()) grid.erase("tune"), grid.erase("tune_best");
    grid["axes"][path] = Ordered::array({value});
    if (!grid.contains("include")) continue;
    for (Ordered& point : grid["include"])
      if (point.is_object()) point[path] = value;
  }
  return grid.dump();
}

bool Grid::may_race() const {
  return race && std::all_of(tune.begin(), tune.end(), [](const TunedField& field) { return field.may_race(); });
}

std::string_view file_of_recipe(std::string_view word) {
  const std::string_view file = word.ends_with(".json") ? word : word.substr(0, word.rfind('@'));
  return file.ends_with(".json") ? file : std::string_view();
}

bool names_file(std::string_view recipe) { return !file_of_recipe(recipe).empty(); }

std::vector<size_t> RaceSettings::rounds() const {
  std::vector<size_t> rounds;
  for (size_t n = 10; n < seeds; n *= 2) rounds.push_back(n);
  rounds.push_back(seeds);
  return rounds;
}

double RaceSettings::delta_on(const std::string& task, std::optional<double> gap) const {
  if (const auto own = delta_of_task.find(task); own != delta_of_task.end()) return own->second;
  if (delta) return *delta;
  const auto own = share_of_task.find(task);
  return (own == share_of_task.end() ? share : own->second) * std::fabs(gap.value_or(0));
}

double uniform_hash(const std::string& salt, const std::string& name, const std::string& hash) {
  const std::string digest = sha256_hex(salt + "\n" + name + "\n" + hash);
  return static_cast<double>(std::stoull(digest.substr(0, 13), nullptr, 16)) / 4503599627370496.0;  // 52 bits
}

}  // namespace fp4::sweeps
