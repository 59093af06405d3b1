// `fp4sim list`: the axis tables and data files, one line each with its source. `fp4sim show`: one of them in full.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "src/layout/digit_layout.h"
#include "src/text/embedded.h"
#include "src/text/json_reader.h"
#include "src/text/member_json.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/judge/results.h"
#include "tasks/run.h"
#include "tools/cli/catalogue.h"
#include "tools/cli/options.h"
#include "tools/cli/reference.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct ListOptions {
  std::vector<std::string> topics;
  std::string sweep;
  bool json = false, words = false;
};

// Names alone, for completion scripts; seven topics exist only here. `sweep`: a folder whose axes are meant.
void print_words(const std::string& topic, const std::string& sweep) {
  std::vector<std::string> names;
  if (topic == "topics")
    names = catalogue_topics();
  else if (topic == "names")
    names = catalogue_show_names();
  else if (topic == "fields" || topic == "words")
    names = topic == "words" ? reference_words() : reference_settings();
  else if (topic == "nibbles")
    names = names_of(golden::code_layout_table);
  else if (topic == "scale-layouts")
    names = names_of(golden::scale_layout_table);
  else if (topic == "axes" && !sweep.empty())
    for (const sweeps::Axis& axis : sweeps::stored_grid(sweeps::Store::read(sweep)).axes) names.push_back(axis.path);
  else if (topic == "axes")
    for (const std::string& setting : reference_settings()) names.push_back(setting.substr(0, setting.find('=')));
  else
    names = names_of(catalogue_rows(topic));
  for (const std::string& name : names) fmt::print("{}\n", name);
}

void run_list(const ListOptions& o) {
  const std::vector<std::string> topics = o.topics.empty() ? catalogue_topics() : o.topics;
  if (o.words) {
    for (const std::string& topic : topics) print_words(topic, o.sweep);
    return;
  }
  auto rows = nlohmann::ordered_json::array();
  const auto peers = parse_json<nlohmann::ordered_json>(embedded("peers.json"), "peers.json");
  std::string text;
  for (const std::string& topic : topics) {
    Table table = {{topic, ""}, {}};
    const std::vector<CatalogueRow> catalogue = catalogue_rows(topic);
    const auto has_source = [](const CatalogueRow& row) { return !row.source.empty(); };
    const bool has_evidence = !catalogue.empty() && !catalogue.front().evidence.empty();
    if (has_evidence) table.columns.push_back({"evidence"});
    if (std::any_of(catalogue.begin(), catalogue.end(), has_source)) table.columns.push_back({"source"});
    for (const CatalogueRow& row : catalogue) {
      rows.push_back({{"name", row.name}, {"doc", row.doc}, {"source", row.source}, {"topic", topic}});
      const bool has_peer = peers.contains(topic) && peers[topic].contains(row.name);
      if (has_peer || topic == "presets")
        rows.back()["compared_with"] = has_peer ? peers[topic][row.name] : nlohmann::ordered_json("not compared");
      if (has_evidence) rows.back()["evidence"] = row.evidence;
      table.rows.push_back({row.name, row.doc});
      if (has_evidence) table.rows.back().push_back(row.evidence);
      table.rows.back().push_back(row.source);
    }
    add_word(text, format_table(table, table_width(), stdout_has_styles()), "\n");
  }
  if (o.json)
    print_json({{"rows", rows}});
  else
    fmt::print("{}", text);
}

struct ShowOptions {
  std::string name, kind, recipe = "fp32";
  bool json = false, brief = false, layers = false;
};

// The linear layers of a task and what a recipe makes of them; shares weigh the multiply-adds of every product.
void show_layers(const ShowOptions& o) {
  const sim::Json config = tasks::canonical({{"task", o.name}, {"recipe", o.recipe}, {"train", {{"steps", 1}}}});
  const std::vector<sim::LayerInfo> layers = tasks::layers(config);
  Table table = {{"layer", "in", "out", "quantisable", "fprop", "dgrad", "wgrad"}, {}};
  auto rows = nlohmann::ordered_json::array();
  std::map<std::string, double> shares;
  double total = 0;
  for (const sim::LayerInfo& l : layers) {
    const auto& p = l.precisions;
    table.rows.push_back(
        {l.name, std::to_string(l.in), std::to_string(l.out), l.quantisable ? "yes" : "by a rule", p[0], p[1], p[2]});
    rows.push_back(joined_json(
        {FP4_NAMED(l.name, l.in, l.out, l.quantisable), {{"fprop", p[0]}, {"dgrad", p[1]}, {"wgrad", p[2]}}}));
    for (const std::string& precision : p) shares[precision] += l.multiply_adds;
    total += 3 * l.multiply_adds;
  }
  for (auto& [precision, share] : shares) share /= total;
  if (o.json) return print_json({{"task", o.name}, {"recipe", o.recipe}, {"layers", rows}, {"multiply_adds", shares}});
  fmt::print("{}\nmultiply-adds:", format_table(table, table_width(), stdout_is_terminal()));
  for (const auto& [precision, share] : shares) fmt::print(" {} {:.1f} %", precision, 100 * share);
  fmt::print("\n");
}

}  // namespace

void command_list(CLI::App& app, Invocation&) {
  auto o = std::make_shared<ListOptions>();
  option(app, "TOPIC TOPIC", o->topics, joined(catalogue_topics()) + " (default: all)");
  add_json_option(app, o->json);
  CLI::Option* words = app.add_flag("--words", o->words, "Print the names alone, one a line");
  option(app, "--sweep DIR", o->sweep, "With --words axes: the axes of this sweep")->needs(words);
  app.callback([o] { run_list(*o); });
  set_example(app, "fp4sim list scale-rules accumulators");
}

void command_show(CLI::App& app, Invocation&) {
  auto o = std::make_shared<ShowOptions>();
  option(app, "NAME NAME", o->name,
         "A recipe, preset, grid, hardware profile, model or accumulator; a file: a recipe unless --kind says")
      ->required();
  option(app, "--kind recipe|preset|grid|hardware|model|accumulator", o->kind,
         "Look only among these; a name that several have is the first of them");
  app.add_flag("--short", o->brief, "The lines one would copy to start a file of one's own");
  app.add_flag("--json", o->json, "With --layers: JSON instead of a table; all else is always JSON");
  CLI::Option* layers =
      app.add_flag("--layers", o->layers, "NAME is a task: its layers, as rules name them, and their precisions");
  app.add_option("--recipe", o->recipe, "With --layers: the recipe that the layers follow")->needs(layers);
  app.callback([o] {
    if (o->layers) return show_layers(*o);
    if (o->brief)
      fmt::print("{}\n", compact_json(catalogue_show(o->name, o->kind, /*brief=*/true), 80));
    else
      print_json(catalogue_show(o->name, o->kind));
    if (!o->kind.empty()) return;
    const std::vector<std::string> kinds = catalogue_kinds_of(o->name);
    for (size_t i = 1; i < kinds.size(); ++i)
      fmt::print(stderr, "fp4sim: note: this is the {0}; {1} is also a {2}: --kind {2}\n", kinds[0], o->name, kinds[i]);
  });
  set_example(app, "fp4sim show nvfp4 --kind preset > spec.json && fp4sim quantize x.npy --spec spec.json --out out");
}

}  // namespace fp4::tools
