#include "tasks/run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "sim/engine/quantized_linear.h"
#include "sim/net/layers.h"
#include "sim/rules/recipe.h"
#include "sim/rules/schedule.h"
#include "sim/train/checkpoint.h"
#include "src/backends/signature.h"
#include "src/files/sha256.h"
#include "src/files/temporaries.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "src/text/named_rows.h"
#include "tasks/task_data.h"

namespace fp4::tasks {

using namespace sim;

namespace {

// The numbered table of defaults that hashes are taken against: fields at these values are left out, so that a new
// field with a default leaves old hashes alone. Change the number when a default of an existing field changes.
constexpr int defaults_number = 2;

// `value` without what equals `defaults`; objects recursively.
Json difference(const Json& value, const Json& defaults) {
  Json result = Json::object();
  for (const auto& [key, v] : value.items()) {
    const auto found = defaults.find(key);
    if (found == defaults.end()) {
      result[key] = v;
    } else if (v.is_object() && found->is_object()) {
      if (Json d = difference(v, *found); !d.empty()) result[key] = std::move(d);
    } else if (v != *found) {
      result[key] = v;
    }
  }
  return result;
}

// The configuration with its data_seed settled: -1 follows the run's seed.
Json with_data_of(const Json& config, uint64_t seed) {
  Json own = config;
  Json& data_seed = own.at("task").at("data_seed");
  if (data_seed == -1) data_seed = seed;
  return own;
}

// SHA-256 of a file, asked for again only when its size or time has changed: a corpus is hashed once, not once for each
// of a grid's configurations.
std::string sha256_of(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  static std::mutex mutex;
  static std::map<std::string, std::tuple<uintmax_t, fs::file_time_type, std::string>> known;
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  const fs::file_time_type time = fs::last_write_time(path, error);
  const std::lock_guard lock(mutex);
  const auto found = known.find(path.string());
  if (!error && found != known.end() && std::get<0>(found->second) == size && std::get<1>(found->second) == time)
    return std::get<2>(found->second);
  std::string hash = sha256_file(path.string());
  if (!error) known[path.string()] = {size, time, hash};
  return hash;
}

// SHA-256 over the contents of the files that text_of_path would read.
std::string content_of(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) return sha256_of(path);
  std::vector<fs::path> files;
  for (const fs::directory_entry& e : fs::directory_iterator(path))
    if (!e.is_symlink() && e.is_regular_file()) files.push_back(e.path());
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& f : files) all += sha256_of(f);
  return sha256_hex(all);
}

const Task& task_of(const Json& config) { return task(config.at("task").at("name").get<std::string>()); }

RunOptions with_signatures(RunOptions options, const Json& config) {
  options.signature = arithmetic_signature();
  options.train_signature = train_signature(task_of(config).name());
  for (const std::string& key : task_of(config).file_parameters())
    if (const std::string path = config.at("task").at(key); !path.empty())
      options.data += fmt::format("{}{} {} {}", options.data.empty() ? "" : ", ", key, path, content_of(path));
  return options;
}

Json without(Json object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) object.erase(key);
  return object;
}

// What `read` gives; a word that it does not know is told where it stands, if it stands in another section.
template <class Read>
Json told(const char* other, const Schema& fields, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    const auto is_word = [&](const Field& field) { return field.path == error.word; };
    if (std::none_of(fields.begin(), fields.end(), is_word)) throw;
    throw Error(error.place, fmt::format("'{0}' stands in `{1}`: {1}.{0}", error.word, other));
  }
}

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const Task* t : all_tasks()) names.push_back(t->name());
  return names;
}

Json task_defaults(const std::string& name) {
  Json d = tasks::canonical({{"task", {{"name", name}}}, {"recipe", Json::object()}});
  d.erase("recipe");
  d["doc"] = task(name).doc();
  return d;
}

const Schema& task_schema(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, Schema> schemas;
  const std::lock_guard lock(mutex);
  const auto [it, is_new] = schemas.try_emplace(name);
  if (is_new) it->second = task(name).schema(Json::object());
  return it->second;
}

Json nameless(Json recipe) { return without(std::move(recipe), {"name", "doc", "source", "deviations"}); }

Json canonical_recipe(const Json& given, const std::string& place) {
  return to_json(sim::canonical(recipe_from_json(given, place)));
}

Json canonical(const Json& given) {
  const std::vector<std::string> sections = {"branch", "eval", "recipe", "task", "train"};
  if (!given.is_object()) throw Error("configuration: expected an object with task, recipe, train, branch and eval");
  for (const auto& [key, value] : given.items()) accepted_index("configuration", key, sections);
  if (!given.contains("task")) throw Error("configuration: no task; accepted: a name or {\"name\": .., ..}");
  Json section = given.at("task");
  if (section.is_string()) section = Json{{"name", section}};
  if (!section.is_object() || !section.contains("name") || !section.at("name").is_string())
    throw Error("configuration: task needs a name");
  const auto name = section.at("name").get<std::string>();
  const Task& t = task(name);
  const Json parameters = without(section, {"name"});
  Json result = Json::object();  // null[key] without memory leaves an object that cannot be destroyed
  result["task"] = told("train", train_schema(),
                        [&] { return sim::canonical(t.schema(parameters), parameters, "task " + t.name()); });
  result["task"]["name"] = t.name();
  const Json given_train = given.value("train", Json::object());
  const Schema train = with_defaults(
      train_schema(), t.train_defaults(result["task"], given_train.is_object() ? given_train : Json::object()));
  result["train"] = told("task", t.schema(parameters), [&] { return sim::canonical(train, given_train, "train"); });
  result["recipe"] = canonical_recipe(given.value("recipe", Json("fp32")));
  if (given.contains("branch")) {
    JsonReader branch(given.at("branch"), "branch");
    const JsonReader recipe = branch.at("recipe"), at = branch.at("at");
    result["branch"] = {{"recipe", canonical_recipe(recipe.json(), recipe.place())},
                        {"at", sim::share_or_count(at, 1e9, "steps")}};
    if (const auto distil = branch.find("distil"); distil && distil->number(0, 1) > 0)
      result["branch"]["distil"] = distil->number(0, 1);
    branch.finish();
    const int step = branch_step(result), steps = result.at("train").at("steps");
    if (step < 1 || step >= steps)
      at.fail("the trunk would have " + std::to_string(step) + " of " + std::to_string(steps) + " steps");
  }
  if (given.contains("eval")) {
    JsonReader eval(given.at("eval"), "eval");
    const JsonReader recipe = eval.at("recipe");
    result["eval"] = {{"recipe", canonical_recipe(recipe.json(), recipe.place())}};
    eval.finish();
  }
  return result;
}

std::string config_hash(const Json& config) {
  const Task& t = task_of(config);
  Json base = {{"fprop", fp4::to_json(GemmSpec{}, true)},
               {"dgrad", fp4::to_json(GemmSpec{}, false)},
               {"wgrad", fp4::to_json(GemmSpec{}, false)},
               {"layers", "all"},
               {"quantise", true},
               {"optimizer", ""},
               {"loss_scaling", false}};
  Json hashed = Json::object();
  hashed["defaults"] = defaults_number;
  hashed["recipe"] = difference(nameless(config.at("recipe")), base);
  for (const char* section : {"branch", "eval"})
    if (config.contains(section)) {
      hashed[section] = config.at(section);
      hashed[section]["recipe"] = difference(nameless(config.at(section).at("recipe")), base);
    }
  Json parameters = config.at("task");
  for (const std::string& key : t.file_parameters())
    if (const std::string path = parameters.at(key); !path.empty()) parameters[key] = content_of(path);
  hashed["task"] = difference(parameters, sim::canonical(t.schema(Json::object()), Json::object(), t.name()));
  hashed["train"] = difference(config.at("train"), sim::canonical(train_schema(), Json::object(), "train"));
  return content_hash(hashed);
}

int sequence_of(const Json& config) { return config.at("task").value("context", 1); }

double effective_batch(const Json& config) {
  const double t = number(config, "outliers.token");
  return static_cast<double>(batch_of(config)) * sequence_of(config) / std::exp(t * t);
}

// Of a network that is trained, or, with `is_judged`, only evaluated under the recipe.
static std::string reason_against(const Json& config, bool is_judged) {
  const auto against = [](const Json& recipe, bool judged) -> std::string {
    const sim::TrainingRecipe read = recipe_from_json(recipe);
    const std::string only = "; accepted in: fp4sim eval, a grid's eval";
    if (!judged && read.attention.calibrates())
      return "attn.kv: tensor_scale hold is calibrated on a trained network" + only;
    if (!judged && recipe.contains("ptq")) return "ptq is done to a trained network" + only;
    if (!judged && recipe.contains("calls")) return "calls is how a trained network's products are called" + only;
    return sim::invalid_reason(read);
  };
  if (const std::string reason = against(config.at("recipe"), is_judged); !reason.empty()) return "recipe: " + reason;
  for (const char* section : {"branch", "eval"})
    if (config.contains(section))
      if (const std::string reason = against(config.at(section).at("recipe"), section == std::string("eval"));
          !reason.empty())
        return section + (": recipe: " + reason);
  const double t = number(config, "outliers.token"), left = effective_batch(config);
  if (t > 0 && left < least_effective_batch) {
    const double batch = std::ceil(least_effective_batch * std::exp(t * t) / sequence_of(config));
    return fmt::format("task {}: outliers.token {:g} leaves an effective batch of {:.4g}; batch {:.0f} keeps {:g}",
                       task_of(config).name(), t, left, batch, least_effective_batch);
  }
  return task_of(config).invalid_reason(config);
}

std::string invalid_reason(const Json& config) { return reason_against(config, /*is_judged=*/false); }

std::vector<LayerInfo> layers(const Json& config) {
  const Dispatcher backend;
  LinearEngine engine(recipe_from_json(config.at("recipe")), backend);
  Parameters parameters;
  Builder build(parameters, engine);
  const std::unique_ptr<Model> model = task_of(config).model(build, with_data_of(config, 0), 0);
  engine.finish();
  return engine.layers();
}

double static_cost(const Json& config) {
  return task_of(config).multiply_adds(config) * config.at("train").at("steps").get<double>();
}

int branch_step(const Json& config) {
  if (!config.contains("branch")) return 0;
  const double at = config.at("branch").at("at"), steps = config.at("train").at("steps");
  return static_cast<int>(at < 1 ? std::floor(at * steps + 0.5) : at);
}

namespace {

// One thread trains a trunk, the others that want it wait.
std::mutex& lock_of(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::mutex> known;
  const std::lock_guard lock(mutex);
  return known[path];
}

// Where the checkpoint of a training lies that several runs go on from: among options.trunks, else in a folder of its
// own, which goes with this object.
class TrunkFile {
 public:
  TrunkFile(const RunOptions& options, const Json& trunk, uint64_t seed, const std::string& suffix = "") {
    const std::string name = "trunk-" + config_hash(trunk) + "-" + std::to_string(seed) + suffix;
    if (options.trunks.empty()) own_.emplace("trunk");
    path_ = own_ ? own_->file(name) : std::filesystem::path(options.trunks) / name;
  }
  const std::string& path() const { return path_; }

 private:
  std::optional<ScratchFolder> own_;
  std::string path_;
};

// A checkpoint of the trunk alone, after its last step; it is trained on from one that an earlier run left.
History run_branch(const Json& config, uint64_t seed, const RunOptions& options) {
  Json trunk = without(config, {"branch"});
  trunk["recipe"] = config.at("branch").at("recipe");
  const int step = branch_step(config);
  RunOptions first = options, second = options;
  const TrunkFile file(options, trunk, seed, "-" + std::to_string(step));
  const std::string& path = file.path();
  first.checkpoint_to = second.resume_from = path;
  first.checkpoint_every = 0;
  first.trace = {};
  first.stop_at = step;
  second.branch = true;
  second.distil = config.at("branch").value("distil", 0.0);
  {
    const std::lock_guard lock(lock_of(path));
    const bool has_begun = resumes(path, trunk, seed);
    if (!has_begun || read_checkpoint(path).step < step) {
      if (has_begun) first.resume_from = path;
      const History history = run(trunk, seed, first);
      if (history.status != Status::stopped || history.steps_done < step) return history;
    }
  }
  return run(config, seed, second);
}

// The training alone, from its checkpoint where an earlier run has left one; then its network under the other recipe.
History run_evaluation(const Json& config, uint64_t seed, const RunOptions& options) {
  // A sweep asks for checkpoints on the way; the training's own, which the next run goes on from, is made instead.
  if ((!options.checkpoint_to.empty() && options.checkpoint_every == 0) || !options.resume_from.empty())
    throw Error("eval: a run that ends in an evaluation keeps no checkpoint; train without `eval`, then `fp4sim eval`");
  const Json trained = without(config, {"eval"});
  const TrunkFile file(options, trained, seed);
  const std::string& path = file.path();
  RunOptions first = options;
  first.checkpoint_every = 0;
  first.checkpoint_to.clear();
  History history;
  {
    const std::lock_guard lock(lock_of(path));
    const bool has_begun = resumes(path, trained, seed);
    const bool is_done = has_begun && read_checkpoint(path).step == trained.at("train").at("steps").get<int>();
    if (has_begun) first.resume_from = path;
    first.judges_whole = false;  // the evaluation does
    if (!is_done) first.checkpoint_to = path;
    history = run(trained, seed, first);
    if (history.status == Status::diverged) std::filesystem::remove(path);  // nothing goes on from there
    if (history.status != Status::finished) return history;
  }
  const Evaluated evaluated = evaluate(path, config.at("eval").at("recipe"), options);
  history.metrics = evaluated.result.metrics;
  std::string all = history.digest;
  for (const auto& [name, value] : history.metrics) {
    const double v = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
    all.append(name).append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  history.digest = sha256_hex(all).substr(0, 16);
  return history;
}

}  // namespace

History run(const Json& config, uint64_t seed, const RunOptions& options) {
  if (const std::string reason = tasks::invalid_reason(config); !reason.empty()) throw Error(reason);
  if (config.contains("eval")) return run_evaluation(config, seed, options);
  if (config.contains("branch") && options.resume_from.empty()) return run_branch(config, seed, options);
  const Json own = with_data_of(config, seed);
  if (options.checkpoint_to.empty() && options.resume_from.empty()) return train(task_of(config), own, seed, options);
  return train(task_of(config), own, seed, with_signatures(options, config));
}

bool resumes(const std::string& checkpoint, const Json& config, uint64_t seed) {
  if (!std::filesystem::exists(checkpoint)) return false;
  try {
    const Checkpoint c = read_checkpoint(checkpoint);
    check_program(c, with_signatures({}, config), checkpoint);
    return c.seed == seed && c.config == with_data_of(config, seed);
  } catch (const Error&) {
    return false;
  }
}

Evaluated evaluate(const std::string& path, const Json& recipe, const RunOptions& options) {
  Checkpoint c = read_checkpoint(path);
  // Of several ranks, too; and by this program's own reader, as any configuration that comes from outside.
  c.config.erase("ranks");
  c.config = at_place(path + ": its configuration", [&] { return canonical(c.config); });
  Evaluated out{c.config, {}};
  if (!recipe.is_null()) out.config["recipe"] = canonical_recipe(recipe);
  if (const std::string reason = reason_against(out.config, /*is_judged=*/true); !reason.empty())
    throw Error(recipe.is_null() ? path + ": its configuration: " + reason : reason);
  RunOptions own = with_signatures(options, out.config);
  own.resume_from = path;
  out.result = sim::evaluate(task_of(out.config), out.config, c, own);
  return out;
}

std::string computed_train_signature(const std::string& name) {
  std::string text = name;
  for (const char* recipe : {"fp32", "mxfp4"}) {
    Json section = {{"all", {{"*", {{"preset", recipe}}}}}};
    const Json config =
        tasks::canonical({{"task", name}, {"recipe", section}, {"train", {{"steps", 5}, {"curve_points", 1}}}});
    text += " " + run(config, 1).digest;
  }
  return sha256_hex(text).substr(0, 16);
}

// In a source that the build writes; absent from programs that have none. Null where it does not know the task.
extern "C" const char* fp4sim_built_train_signature(const char* task) __attribute__((weak));

std::string train_signature(const std::string& name) {
  const char* built = fp4sim_built_train_signature != nullptr ? fp4sim_built_train_signature(name.c_str()) : nullptr;
  if (built != nullptr) return built;
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& signature = known[name];
  if (signature.empty()) signature = computed_train_signature(name);
  return signature;
}

}  // namespace fp4::tasks
