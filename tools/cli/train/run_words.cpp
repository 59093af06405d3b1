#include "tools/cli/train/run_words.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "src/text/words.h"
#include "tasks/run.h"
#include "tools/cli/options.h"

namespace fp4::tools {

namespace {

// 128, 1e-3, 1/6, true, [32,32], or a word (32x32 is one).
sim::Json value_of(const std::string& text, const std::string& place) {
  if (sim::Json::accept(text)) return parse_json(text, place);
  if (!text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) &&
      text.find_first_of("/^") != std::string::npos)
    return number_from_text(text, place);
  return text;
}

bool knows(const sim::Schema& schema, const std::string& path) {
  return std::any_of(schema.begin(), schema.end(), [&](const sim::Field& f) { return f.path == path; });
}

// First words of paths into a recipe: the fields of its reader, without those that describe it and without
// `optimizer`, which is the training's unless `recipe.` stands in front.
const std::vector<std::string>& recipe_words() {
  static const std::vector<std::string> words = [] {
    FieldNotes notes;
    sim::recipe_from_json(sim::Json::object(), "recipe", &notes);
    std::vector<std::string> list;
    for (const auto& [key, field] : notes.fields) list.push_back(key);
    for (const char* other : {"name", "doc", "source", "deviations", "base", "optimizer"}) std::erase(list, other);
    return list;
  }();
  return words;
}

bool is_recipe_path(const std::string& path) {
  const std::string head = path.substr(0, path.find('.'));
  return head == "*" || std::find(recipe_words().begin(), recipe_words().end(), head) != recipe_words().end();
}

std::vector<std::string> accepted_paths(const sim::Schema& parameters) {
  std::vector<std::string> accepted;
  for (const sim::Schema* s : {&sim::train_schema(), &parameters})
    for (const sim::Field& f : *s) accepted.push_back(f.path);
  accepted.insert(accepted.end(), recipe_words().begin(), recipe_words().end());
  return accepted;
}

// PATH=VALUE of --set.
std::pair<std::string, sim::Json> path_and_value(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) throw Error("--set " + word + ": expected path=value");
  return {word.substr(0, equals), value_of(word.substr(equals + 1), "--set " + word)};
}

// "all" stands for "*" in recipes.
std::string recipe_path(const std::string& path) { return path[0] == '*' ? "all" + path.substr(1) : path; }

// The fields of one command line that have a value so far.
class GivenFields {
 public:
  // Throws Error where `word`, such as --set lr=0.1, gives a field again.
  void add(const std::string& field, const std::string& word) {
    if (!fields_.insert(field).second) throw Error(word + ": given twice: " + field);
  }

 private:
  std::set<std::string> fields_;
};

// An option that sets a parameter which not every task has.
void check_task_option(const std::string& option, const std::string& path, const std::string& task) {
  if (knows(tasks::task_schema(task), path)) return;
  std::string owners;
  for (const std::string& name : tasks::task_names())
    if (knows(tasks::task_schema(name), path)) add_word(owners, name);
  throw Error(option + ": task " + task + " does not read it; accepted with: --task " + owners);
}

}  // namespace

void lay_over(sim::Json& recipe, const std::vector<std::string>& words) {
  GivenFields fields;
  for (const std::string& word : words) {
    auto [path, value] = path_and_value(word);
    if (path.starts_with("recipe.")) path.erase(0, 7);
    if (!is_recipe_path(path)) throw unknown_word("--set " + word, path, recipe_words());
    path = recipe_path(path);
    fields.add(path, "--set " + word);
    sim::set_path(recipe, path, value);
  }
}

void RunWords::add(CLI::App& app) {
  task_option = option(app, "-t,--task TASK", task, "regression, classifier, diffusion, lm or recommender")->required();
  recipe_option = defaulted(app, "-r,--recipe RECIPE", recipe, "Recipe name, NAME@GEMM, NAME@weights, or a JSON file");
  option(app, "--set FIELD=VALUE", sets, "path=value of a recipe, training or task field (several allowed)");
  app.add_option("--steps", steps, "Training steps (default: the task's)")->check(CLI::Range(1, 1000000000));
  seed_option = defaulted(app, "--seed", seed, "Initial weights, batch order and random bits");
  option(app, "--text FILE", text, "lm: a file or folder to read instead of the grammar");
  option(app, "--images FILE", images, "classifier: IDX file of images");
  option(app, "--labels FILE", labels, "classifier: IDX file of labels");
  defaulted(app, "--threads", threads, "Threads inside large products; the result is the same")
      ->check(CLI::Range(1, 1024));
  add_backend_option(app, backend, "; the result is the same")->type_name("BACKEND")->capture_default_str();
}

sim::Json RunWords::config(const sim::Json& from) const {
  sim::Json given = {{"task", {{"name", task}}}, {"recipe", {{"base", recipe}}}, {"train", sim::Json::object()}};
  sim::recipe_from_json(recipe, "--recipe");  // a wrong name is answered before what --set lays over it
  for (const auto& [section, value] : from.items()) {
    const bool says_other = section == "task" ? !task.empty() && value.at("name") != task
                                              : section == "recipe" && recipe_option->count() > 0;
    if (!says_other) given[section] = value;
  }
  const auto name = given.at("task").at("name").get<std::string>();
  const sim::Schema& parameters = tasks::task_schema(name);
  GivenFields fields;
  const auto put = [&](const std::string& path, const sim::Json& value, const std::string& word) {
    const size_t dot = path.find('.');
    std::string section = path.substr(0, dot), rest = path.substr(dot + 1);
    if (section == "branch" && dot != std::string::npos && !given.contains(section)) given[section] = {{"at", 0.5}};
    if (section == "eval" && dot != std::string::npos && !given.contains(section)) given[section] = sim::Json::object();
    if (dot == std::string::npos || !given.contains(section)) {
      std::vector<std::string> owners;
      if (is_recipe_path(path)) owners.emplace_back("recipe");
      if (knows(sim::train_schema(), path)) owners.emplace_back("train");
      if (knows(parameters, path)) owners.emplace_back("task");
      if (owners.empty()) throw unknown_word(word, path, accepted_paths(parameters));
      if (owners.size() > 1)
        throw Error(word + ": two fields have this name; write " + owners[0] + "." + path + " or " + owners[1] + "." +
                    path);
      section = owners[0];
      rest = path;
    }
    if (section == "recipe") rest = recipe_path(rest);
    fields.add(section + "." + rest, word);
    sim::set_path(given[section], rest, value);
  };
  if (steps > 0) put("train.steps", steps, "--steps " + std::to_string(steps));
  for (const std::string& word : sets) {
    const auto [path, value] = path_and_value(word);
    put(path, value, "--set " + word);
  }
  for (const auto& [path, file] : {std::pair("text", &text), {"images", &images}, {"labels", &labels}}) {
    if (file->empty()) continue;
    const std::string option = std::string("--") + path;
    check_task_option(option, path, name);
    put(std::string("task.") + path, *file, option);
  }
  return tasks::canonical(given);
}

}  // namespace fp4::tools
