// `fp4sim eval`: what a trained network loses under other recipes, without training it further.
#include <fmt/core.h>

#include "sim/rules/recipe.h"
#include "sim/train/checkpoint.h"
#include "src/text/error.h"
#include "tasks/run.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"
#include "tools/cli/train/run_words.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;

struct EvalOptions {
  std::string checkpoint, backend = "auto";
  std::vector<std::string> recipes, sets;
  int threads = 1;
  bool json = false;
};

struct EvaluatedRow {
  std::string recipe;
  bool is_own = false;
  tasks::Evaluated evaluated;
};

// A recipe with what --set lays over it; null: the training's own, as it is.
sim::Json recipe_of(const EvalOptions& o, const std::string& name) {
  if (o.sets.empty()) return name.empty() ? sim::Json() : sim::Json(name);
  sim::Json recipe = {{"base", name}};
  lay_over(recipe, o.sets);
  return recipe;
}

std::vector<EvaluatedRow> evaluate_all(const EvalOptions& o) {
  sim::RunOptions options;
  options.backend = o.backend;
  options.threads = o.threads;
  std::vector<EvaluatedRow> rows;
  ProgressLine line(
      o.json, [](double rate) { return fmt::format("{:.3g} recipes/s", rate); }, 2);
  const auto add = [&](const std::string& name, const sim::Json& recipe) {
    EvaluatedRow row{
        .recipe = name, .is_own = recipe.is_null(), .evaluated = tasks::evaluate(o.checkpoint, recipe, options)};
    if (row.is_own) row.recipe = row.evaluated.config.at("recipe").at("name").get<std::string>();
    rows.push_back(std::move(row));
    const size_t all = o.recipes.size() + 1;
    line.update({.done = static_cast<double>(rows.size()),
                 .all = static_cast<double>(all),
                 .count = fmt::format("{}/{}", rows.size(), all),
                 .more = rows.back().recipe});
  };
  for (const std::string& name : o.recipes) sim::recipe_from_json(name, "--recipes");  // before anything is computed
  add("", sim::Json());
  for (const std::string& name : o.recipes) add(name, recipe_of(o, name));
  return rows;
}

double metric(const EvaluatedRow& row, const char* name) { return row.evaluated.result.metrics.at(name); }

void print(const EvalOptions& o, const sim::Checkpoint& checkpoint, const std::vector<EvaluatedRow>& rows) {
  print_wrapped(fmt::format("{}: {}, seed {}, step {} of {}, trained under {}", o.checkpoint,
                            checkpoint.config.at("task").at("name").get<std::string>(), checkpoint.seed,
                            checkpoint.step, checkpoint.config.at("train").at("steps").get<int>(), rows[0].recipe));
  std::vector<std::string> others;
  for (const auto& [name, value] : rows[0].evaluated.result.metrics)
    if (name != "loss" && name != "loss_hp" && name != "trivial_loss") others.push_back(name);
  Table table{{{"recipe"}, {"loss", Align::right}, {"over fp32", Align::right}}, {}};
  for (const std::string& name : others) table.columns.push_back({name, Align::right});
  for (const EvaluatedRow& row : rows) {
    table.rows.push_back({row.recipe + (row.is_own ? " (its own)" : ""), fmt::format("{:.6g}", metric(row, "loss")),
                          fmt::format("{:+.3g}", metric(row, "loss") - metric(row, "loss_hp"))});
    for (const std::string& name : others)
      table.rows.back().push_back(fmt::format("{:.5g}", metric(row, name.c_str())));
  }
  print_table(table);
}

void run_eval(const EvalOptions& o, Invocation& invocation) {
  if (!o.sets.empty() && o.recipes.empty()) throw Error("--set changes what --recipes names, and none is named");
  const sim::Checkpoint checkpoint = sim::read_checkpoint(o.checkpoint);
  const std::vector<EvaluatedRow> rows = evaluate_all(o);
  if (!o.json) return print(o, checkpoint, rows);
  ordered_json list = ordered_json::array();
  for (const EvaluatedRow& row : rows)
    list.push_back({{"recipe", row.recipe},
                    {"own", row.is_own},
                    {"metrics", row.evaluated.result.metrics},
                    {"seconds", row.evaluated.result.seconds}});
  print_json({{"schema", 1},
              {"checkpoint", o.checkpoint},
              {"task", checkpoint.config.at("task").at("name")},
              {"seed", checkpoint.seed},
              {"step", checkpoint.step},
              {"rows", list},
              {"provenance", provenance(invocation)}});
}

void add_eval(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<EvalOptions>();
  app.add_option("--checkpoint", o->checkpoint, "A checkpoint of `fp4sim train --checkpoint`")
      ->required()
      ->type_name("FILE");
  keep_older_names(
      app.add_option("-r,--recipes,--recipe", o->recipes,
                     "Recipes to try beside the training's own: names, NAME@fprop, NAME@weights, JSON files")
          ->type_name("RECIPE,..")
          ->delimiter(','));
  app.add_option("--set", o->sets, "path=value of a recipe's field, laid over each of them (several allowed)")
      ->type_name("FIELD=VALUE");
  app.add_option("--threads", o->threads, "Threads inside large products; the result is the same")
      ->check(CLI::Range(1, 1024));
  add_backend_option(app, o->backend, "; the result is the same")->type_name("BACKEND");
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_eval(*o, invocation); });
  set_example(app, "fp4sim eval --checkpoint net.ck --recipes nvfp4,nvfp4@weights,mxfp8");
}

}  // namespace

Command command_eval() { return {"eval", "What a trained network loses under other recipes", add_eval}; }

}  // namespace fp4::tools
