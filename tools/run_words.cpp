// See run_words.h.
#include "tools/run_words.h"

#include <algorithm>

#include "sim/recipe.h"
#include "src/error.h"
#include "src/integer_text.h"
#include "tasks/run.h"

namespace fp4::tools {

namespace {

// 128, 1e-3, 1/6, true, [32,32], 32x32, or a word.
sim::Json value_of(const std::string& text, const std::string& place) {
  if (const size_t x = text.find('x'); x != std::string::npos && x > 0 && x + 1 < text.size() &&
                                       text.find_first_not_of("0123456789x") == std::string::npos)
    if (const auto rows = integer_from_text<int>(text.substr(0, x)), cols = integer_from_text<int>(text.substr(x + 1));
        rows && cols)
      return sim::Json::array({*rows, *cols});
  if (sim::Json parsed = sim::Json::parse(text, nullptr, false); !parsed.is_discarded()) return parsed;
  if (!text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) &&
      text.find_first_of("/^") != std::string::npos)
    return number_from_text(text, place);
  return text;
}

bool knows(const sim::Schema& schema, const std::string& path) {
  return std::any_of(schema.begin(), schema.end(), [&](const sim::Field& f) { return f.path == path; });
}

bool is_recipe_path(const std::string& path) {
  const std::string head = path.substr(0, path.find('.'));
  for (const char* key : {"fprop", "dgrad", "wgrad", "all", "*", "layers", "quantise", "loss_scaling"})
    if (head == key) return true;
  return false;
}

}  // namespace

void RunWords::add(CLI::App& app) {
  app.add_option("--task", task, "regression, classifier, diffusion or lm")->required();
  app.add_option("--recipe", recipe, "Recipe name, NAME@GEMM, or a JSON file");
  app.add_option("--set", sets, "path=value of a recipe, training or task field (several allowed)");
  app.add_option("--steps", steps, "Training steps")->check(CLI::Range(1, 1000000000));
  app.add_option("--seed", seed, "Initial weights, batch order and random bits");
  app.add_option("--text", text, "lm: a file or folder to read instead of the grammar");
  app.add_option("--images", images, "classifier: IDX file of images");
  app.add_option("--labels", labels, "classifier: IDX file of labels");
  app.add_option("--threads", threads, "Threads inside large products; the result is the same")
      ->check(CLI::Range(1, 1024));
  app.add_option("--backend", backend, "auto, reference, avx2, avx512 or gpu; the result is the same");
}

sim::Json RunWords::config() const {
  sim::Json given = {{"task", {{"name", task}}}, {"recipe", {{"base", recipe}}}, {"train", sim::Json::object()}};
  const sim::Schema& parameters = tasks::task_schema(task);
  const auto put = [&](std::string path, const sim::Json& value, const std::string& word) {
    for (const char* section : {"task.", "train.", "recipe."})
      if (path.rfind(section, 0) == 0) return sim::set_path(given, path, value);
    if (is_recipe_path(path)) {
      if (path[0] == '*') path = "all" + path.substr(1);
      return sim::set_path(given["recipe"], path, value);
    }
    if (knows(sim::train_schema(), path)) return sim::set_path(given["train"], path, value);
    if (knows(parameters, path)) return sim::set_path(given["task"], path, value);
    std::vector<std::string> accepted;
    for (const sim::Schema* s : {&sim::train_schema(), &parameters})
      for (const sim::Field& f : *s) accepted.push_back(f.path);
    for (const char* path_head : {"fprop...", "dgrad...", "wgrad...", "layers", "quantise", "loss_scaling"})
      accepted.push_back(path_head);
    throw unknown_word("--set " + word, path, accepted);
  };
  for (const std::string& word : sets) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) throw Error("--set " + word + ": expected path=value");
    put(word.substr(0, equals), value_of(word.substr(equals + 1), "--set " + word), word);
  }
  if (steps > 0) given["train"]["steps"] = steps;
  if (!text.empty()) put("text", text, "--text");
  if (!images.empty()) put("images", images, "--images");
  if (!labels.empty()) put("labels", labels, "--labels");
  return tasks::canonical(given);
}

}  // namespace fp4::tools
