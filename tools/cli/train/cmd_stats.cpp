// `fp4sim stats`: what the tensors of a task look like to a quantiser: amax/rms and kurtosis decide which formats
// suffer, clipped and underflow shares say how, the error of each product says how much.
#include <fmt/core.h>

#include <map>
#include <tuple>

#include "src/arith/spec_text.h"
#include "tasks/run.h"
#include "tools/cli/command.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/provenance.h"
#include "tools/cli/table_print.h"
#include "tools/cli/train/run_words.h"

namespace fp4::tools {
namespace {

struct StatsOptions {
  RunWords run;
  int at = 50;
  CLI::Option* at_option = nullptr;
  std::vector<std::string> probes;
  bool json = false;
};

constexpr const char* quantities[] = {"amax", "amax_over_rms", "kurtosis", "clipped", "underflow", "nmse"};

using Key = std::tuple<std::string, std::string, std::string, int>;  // layer, gemm, operand, probe
struct TracedRows {
  std::vector<Key> order;
  std::map<Key, std::map<std::string, double>> values;
};

nlohmann::ordered_json rows_json(const StatsOptions& o, const TracedRows& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Key& key : rows.order) {
    const auto& [layer, gemm, operand, probe] = key;
    nlohmann::ordered_json row = {{"layer", layer}, {"gemm", gemm}, {"operand", operand}};
    if (probe >= 0) row["probe"] = o.probes[static_cast<size_t>(probe)];
    for (const auto& [name, value] : rows.values.at(key)) row[name] = value;
    list.push_back(row);
  }
  return list;
}

void print_rows(const StatsOptions& o, TracedRows& rows) {
  Table table;
  table.columns = {{"layer"}, {"gemm"}, {"operand"}};
  if (!o.probes.empty()) table.columns.push_back({"spec"});
  for (const std::string q : quantities) table.columns.push_back({q == "underflow" ? "to zero" : q, Align::right});
  table.columns.push_back(">gemm error");
  for (const Key& key : rows.order) {
    const auto& [layer, gemm, operand, probe] = key;
    if (operand == "c") continue;
    std::vector<std::string> row = {layer, gemm, operand};
    if (!o.probes.empty()) row.push_back(probe < 0 ? "recipe's" : o.probes[static_cast<size_t>(probe)]);
    for (const char* q : quantities) row.push_back(fmt::format("{:.3g}", rows.values[key][q]));
    const auto product = rows.values.find({layer, gemm, "c", -1});
    row.push_back(operand == "b" && probe < 0 && product != rows.values.end()
                      ? fmt::format("{:.3g}", product->second.at("relative_error"))
                      : "");
    table.rows.push_back(row);
  }
  print_table(table);
}

void run_stats(StatsOptions& o, Invocation& invocation) {
  if (o.run.steps == 0) o.run.steps = o.at;  // one step is traced; a run of that length is enough
  sim::Json config = o.run.config();
  config["train"]["curve_points"] = 1;
  const int steps = config.at("train").at("steps"), at = std::min(o.at, steps);
  if (at < o.at && o.at_option->count() > 0) throw Error(fmt::format("--step {}: the run has {} steps", o.at, steps));
  TracedRows rows;
  sim::RunOptions options;
  options.backend = o.run.backend;
  options.threads = o.run.threads;
  options.trace_every = 1;
  for (const std::string& words : o.probes) options.trace_probes.push_back(quant_spec_from_words(words, "--probe"));
  ProgressLine line(
      o.json, [](double rate) { return fmt::format("{:.3g} steps/s", rate); }, 2);
  options.progress = [&line, at](const sim::Progress& p) {
    line.count(p.step, at, fmt::format("loss {:.4f}", p.train_loss));
    return p.step < at;
  };
  options.trace = [&](const sim::TraceRow& r) {
    if (r.step != at) return;
    const Key key = {r.layer, r.gemm, r.operand, r.probe};
    if (!rows.values.contains(key)) rows.order.push_back(key);
    rows.values[key][r.quantity] = r.value;
  };
  options.trace_from = at;
  const sim::History history = tasks::run(config, o.run.seed, options);
  line.finish();
  if (o.json)
    return print_json({{"task", config.at("task").at("name")},
                       {"recipe", config.at("recipe").at("name")},
                       {"step", at},
                       {"rows", rows_json(o, rows)},
                       {"config", config},
                       {"provenance", provenance(invocation)}});
  fmt::print("task {}, recipe {}, step {}\n", config.at("task").at("name").get<std::string>(),
             config.at("recipe").at("name").get<std::string>(), at);
  print_rows(o, rows);
}

}  // namespace

void command_stats(CLI::App& app, Invocation& invocation) {
  static StatsOptions o;
  o.run.add(app);
  o.at_option = defaulted(app, "--step,--at", o.at, "The training step that is looked at");
  keep_older_names(o.at_option->check(CLI::Range(1, 1000000000)));
  app.add_option("--probe", o.probes, "Spec to try on the same tensors: preset or key=value words (several allowed)");
  app.add_flag("--json", o.json, "Print JSON");
  app.callback([&invocation] { run_stats(o, invocation); });
  set_example(app, "fp4sim stats --task lm --recipe nvfp4 --step 100");
}

}  // namespace fp4::tools
