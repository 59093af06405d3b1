// `fp4sim eval`: what a trained network loses under other recipes, without training it further; with --against, whether
// two kernels compute the same network.
#include <fmt/core.h>

#include <cmath>

#include "sim/rules/recipe.h"
#include "sim/train/checkpoint.h"
#include "src/files/tensor_reader.h"
#include "src/text/error.h"
#include "sweeps/judge/rollout.h"
#include "tasks/run.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/provenance.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"
#include "tools/cli/train/rollout_print.h"
#include "tools/cli/train/run_words.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;

struct EvalOptions {
  std::string checkpoint, against, logits, backend = "auto";
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

sim::RunOptions eval_options(const EvalOptions& o) {
  sim::RunOptions options;
  options.backend = o.backend;
  options.threads = o.threads;
  return options;
}

std::vector<EvaluatedRow> evaluate_all(const EvalOptions& o) {
  const sim::RunOptions options = eval_options(o);
  std::vector<EvaluatedRow> rows;
  ProgressLine line(
      o.json, [](double rate) { return fmt::format("{:.3g} recipes/s", rate); }, 2);
  const auto add = [&](const std::string& name, const sim::Json& recipe) {
    EvaluatedRow row{
        .recipe = name, .is_own = recipe.is_null(), .evaluated = tasks::evaluate(o.checkpoint, recipe, options)};
    if (row.is_own) row.recipe = row.evaluated.config.at("recipe").at("name").get<std::string>();
    rows.push_back(std::move(row));
    line.count(static_cast<int64_t>(rows.size()), static_cast<int64_t>(o.recipes.size()) + 1, rows.back().recipe);
  };
  for (const std::string& name : o.recipes) sim::recipe_from_json(name, "--recipes");  // before anything is computed
  add("", sim::Json());
  for (const std::string& name : o.recipes) add(name, recipe_of(o, name));
  return rows;
}

// The network and its training, one line.
std::string network_line(const EvalOptions& o, const sim::Checkpoint& c, const std::string& recipe) {
  return fmt::format("{}: {}, seed {}, step {} of {}, trained under {}", o.checkpoint,
                     c.config.at("task").at("name").get<std::string>(), c.seed, c.step,
                     c.config.at("train").at("steps").get<int>(), recipe);
}

ordered_json network_json(const EvalOptions& o, const sim::Checkpoint& c) {
  return {{"schema", 1},
          {"checkpoint", o.checkpoint},
          {"task", c.config.at("task").at("name")},
          {"seed", c.seed},
          {"step", c.step}};
}

double metric(const EvaluatedRow& row, const char* name) { return row.evaluated.result.metrics.at(name); }

void print(const EvalOptions& o, const sim::Checkpoint& checkpoint, const std::vector<EvaluatedRow>& rows) {
  print_wrapped(network_line(o, checkpoint, rows[0].recipe));
  std::vector<std::string> others;
  for (const auto& [name, value] : rows[0].evaluated.result.metrics)
    if (name != "loss" && name != "loss_hp" && name != "trivial_loss") others.push_back(name);
  Table table{{"recipe", ">loss", ">over fp32"}, {}};
  for (const std::string& name : others) table.columns.push_back({name, Align::right});
  for (const EvaluatedRow& row : rows) {
    table.rows.push_back({row.recipe + (row.is_own ? " (its own)" : ""), fmt::format("{:.6g}", metric(row, "loss")),
                          fmt::format("{:+.3g}", metric(row, "loss") - metric(row, "loss_hp"))});
    for (const std::string& name : others)
      table.rows.back().push_back(fmt::format("{:.5g}", metric(row, name.c_str())));
  }
  print_table(table);
}

// --against A: the one recipe of --recipe, or A itself, with --set laid over it.
void run_against(const EvalOptions& o, Invocation& invocation) {
  if (o.recipes.size() > 1)
    throw Error(fmt::format("--against takes one recipe beside it, found {}: {}, {}", o.recipes.size(), o.recipes[0],
                            o.recipes[1]));
  if (o.recipes.empty() && o.sets.empty())
    throw Error("--against: compared with what? accepted: --recipe RECIPE, --set FIELD=VALUE, or both");
  const sim::Checkpoint checkpoint = sim::read_checkpoint(o.checkpoint);
  const sim::Json* const found = sim::at_path(checkpoint.config, "recipe.name");
  if (found == nullptr || !found->is_string())
    throw Error(o.checkpoint + ": its configuration has no recipe with a name", Error::failed);
  const sim::Json own = checkpoint.config.at("recipe");
  const auto own_name = found->get<std::string>();
  const auto given = [&](const std::string& word) { return word == "own" ? own : sim::Json(word); };
  const sim::Json against = given(o.against);
  sim::Json recipe = o.recipes.empty() ? against : given(o.recipes[0]);
  if (!o.sets.empty()) {
    recipe = {{"base", recipe}};
    lay_over(recipe, o.sets);
  }
  sim::recipe_from_json(against, "--against");
  sim::recipe_from_json(recipe, "--recipe");
  ProgressLine line(
      o.json, [](double rate) { return fmt::format("{:.3g} evaluations/s", rate); }, 2);
  const sweeps::Rollout rollout = sweeps::compare_rollout(
      o.checkpoint, against, recipe, eval_options(o),
      [&](size_t done, size_t all) { line.count(static_cast<int64_t>(done), static_cast<int64_t>(all)); });
  const auto shown = [&](const std::string& word) { return word == "own" ? own_name : word; };
  std::string name = shown(o.recipes.empty() ? o.against : o.recipes[0]);
  for (size_t i = 0; i < o.sets.size(); ++i) name += (i == 0 ? " with " : ", ") + o.sets[i];
  if (!o.json) {
    print_wrapped(network_line(o, checkpoint, own_name));
    return print_rollout(rollout, shown(o.against), name);
  }
  ordered_json out = network_json(o, checkpoint);
  out["against"] = shown(o.against);
  out["recipe"] = name;
  out.update(json_of(rollout));
  out["provenance"] = provenance(invocation);
  print_json(out);
}

// Logits as an engine dumps them: [tokens, classes], or [sequences, tokens, classes].
struct Logits {
  FloatTensor tensor;
  int64_t classes = 0, per_example = 1;
};
Logits load_logits(const char* option, const std::string& path) {
  Logits out{load_floats(path)};
  print_notes(out.tensor.notes);
  const Shape& shape = out.tensor.shape;
  if ((shape.size() != 2 && shape.size() != 3) || shape.back() < 2 || out.tensor.values.empty())
    throw Error(fmt::format("{} {}: shape {}; expected [tokens, classes] or [sequences, tokens, classes]", option, path,
                            shape_text(shape)));
  out.classes = static_cast<int64_t>(shape.back());
  if (shape.size() == 3) out.per_example = static_cast<int64_t>(shape[1]);
  return out;
}

// --logits A --against B: what two programs of whatever kind computed of the same tokens.
void run_logits(const EvalOptions& o, Invocation& invocation) {
  if (!o.checkpoint.empty() || !o.recipes.empty() || !o.sets.empty())
    throw Error("--logits compares two files; leave out the checkpoint, --recipes and --set");
  if (o.against.empty()) throw Error("--logits: compared with what? --against FILE, logits of the same tokens");
  const Logits own = load_logits("--logits", o.logits), other = load_logits("--against", o.against);
  if (own.tensor.shape != other.tensor.shape)
    throw Error(fmt::format("--logits {} has shape {}, --against {} has {}", o.logits, shape_text(own.tensor.shape),
                            o.against, shape_text(other.tensor.shape)));
  const std::vector<float>&x = own.tensor.values, &y = other.tensor.values;
  const sweeps::Divergence d =
      sweeps::divergence(x, y, static_cast<int>(own.classes), static_cast<int>(own.per_example));
  const auto tokens = static_cast<int64_t>(x.size()) / own.classes, examples = tokens / own.per_example;
  int64_t differing = 0, first = -1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (differing++ == 0) first = static_cast<int64_t>(i);
  }
  if (o.json) {
    ordered_json out = {{"schema", 1},          {"logits", o.logits},     {"against", o.against},  {"tokens", tokens},
                        {"examples", examples}, {"classes", own.classes}, {"differing", differing}};
    out.update(json_of(d));
    out["provenance"] = provenance(invocation);
    return print_json(out);
  }
  print_sentence("{} against {}: {} tokens of {} examples, {} classes", o.logits, o.against, grouped(tokens),
                 grouped(examples), grouped(own.classes));
  print_divergence(d);
  const auto count = grouped(x.size());
  print_wrapped(first < 0 ? fmt::format("All {} logits are equal.", count)
                          : fmt::format("{} of {} logits differ, first of token {}, class {}: {:.9g} against {:.9g}.",
                                        grouped(differing), count, first / own.classes, first % own.classes,
                                        x[static_cast<size_t>(first)], y[static_cast<size_t>(first)]));
  if (own.per_example == 1)
    print_wrapped(
        "The interval takes tokens for independent; those of one sequence are not: [sequences, tokens, classes] says "
        "which belong together.");
}

void run_eval(const EvalOptions& o, Invocation& invocation) {
  if (!o.logits.empty()) return run_logits(o, invocation);
  if (o.checkpoint.empty())
    throw Error(
        "eval: a checkpoint of `fp4sim train --checkpoint` is needed, or two files: --logits A.npy --against B.npy");
  if (!o.against.empty()) return run_against(o, invocation);
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
  ordered_json out = network_json(o, checkpoint);
  out["rows"] = std::move(list);
  out["provenance"] = provenance(invocation);
  print_json(out);
}

}  // namespace

void command_eval(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<EvalOptions>();
  option(app, "checkpoint,--checkpoint FILE", o->checkpoint, "A checkpoint of `fp4sim train --checkpoint`");
  option(app, "--logits FILE", o->logits,
         "Instead of a checkpoint: logits that a program dumped, [tokens, classes] or [sequences, tokens, classes]; "
         "--against is then a file of the same shape");
  keep_older_names(option(app, "-r,--recipes,--recipe RECIPE,..", o->recipes,
                          "Recipes to try beside the training's own: names, NAME@fprop, NAME@weights, JSON files"));
  option(app, "--against RECIPE|FILE", o->against,
         "Compares one recipe with this one (own: the training's), token by token: KL, other top-1 tokens, the first "
         "product that differs, and which word makes it");
  option(app, "--set FIELD=VALUE", o->sets, "path=value of a recipe's field, laid over each of them (several allowed)");
  app.add_option("--threads", o->threads, "Threads inside large products; the result is the same")
      ->check(CLI::Range(1, 1024));
  add_backend_option(app, o->backend, "; the result is the same")->type_name("BACKEND");
  add_json_option(app, o->json);
  app.callback([o, &invocation] { run_eval(*o, invocation); });
  set_example(app,
              "fp4sim eval --checkpoint net.ck --recipes nvfp4,nvfp4@weights,mxfp8\n"
              "  fp4sim eval net.ck --against bf16 --set calls.split_k=4\n"
              "  fp4sim eval --logits engine.npy --against trainer.npy");
}

}  // namespace fp4::tools
