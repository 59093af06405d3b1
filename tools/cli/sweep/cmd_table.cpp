// `fp4sim table`: the results of a sweep in the terminal, as CSV or as JSON.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/files/output.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "sweeps/report/table.h"
#include "tools/cli/options.h"
#include "tools/cli/streams.h"
#include "tools/cli/sweep/effects_print.h"
#include "tools/cli/sweep/front_print.h"
#include "tools/cli/sweep/sweep_view.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct TableOptions {
  ViewOptions view;
  sweeps::TableOptions table;
  std::vector<std::string> columns;
  std::string csv, json;
  size_t limit = 40;
  bool force = false;
};

// Terminal text: six significant digits are plenty to look at, and shares of time are percent as in `pareto`; files
// keep every bit.
std::string shown(const sweeps::Cell& cell, const std::string& column) {
  const double* value = std::get_if<double>(&cell);
  if (value != nullptr && column.find("overhead") != std::string::npos) return cost_text(column, *value);
  if (value != nullptr) return fmt::format("{:.5g}", *value);
  return sweeps::text_of(cell);
}

// What fits a terminal: axes with more than one value, then what is most asked for.
std::vector<size_t> default_columns(const sweeps::ResultTable& table, size_t axes, bool grouped) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    bool varies = false;
    for (const auto& row : table.rows) varies |= sweeps::text_of(row[i]) != sweeps::text_of(table.rows.front()[i]);
    static const std::vector<std::string> wanted = {
        "task",     "seed",       "role", "n", "diverged", "loss", "loss_gap", "loss_gap_raw_low", "loss_gap_raw_high",
        "overhead", "config_hash"};
    // Beside the gap's interval the loss and a hash would not fit 80 columns.
    const bool fits = !grouped || (table.columns[i] != "loss" && table.columns[i] != "config_hash");
    const bool asked = fits && std::find(wanted.begin(), wanted.end(), table.columns[i]) != wanted.end();
    const bool telling = table.columns[i] == "status" || table.columns[i] == "role" || table.columns[i] == "diverged";
    if (telling ? varies : i < axes ? varies : asked) chosen.push_back(i);
  }
  return chosen;
}

void print(const sweeps::ResultTable& table, const TableOptions& o, const std::vector<std::string>& axis_names) {
  const size_t axes = axis_names.size();
  std::vector<size_t> chosen;
  for (const std::string& name : o.columns) chosen.push_back(accepted_index("--columns", name, table.columns));
  if (chosen.empty() && !table.rows.empty()) chosen = default_columns(table, axes, o.table.grouped);
  Table text;
  for (const size_t i : chosen) {
    const bool numbers = !table.rows.empty() && !std::holds_alternative<std::string>(table.rows.front()[i]);
    text.columns.push_back({i < axes ? axis_names[i] : table.columns[i], numbers ? Align::right : Align::left});
  }
  for (size_t r = 0; r < table.rows.size() && (o.limit == 0 || r < o.limit); ++r) {
    std::vector<std::string>& row = text.rows.emplace_back();
    for (const size_t i : chosen) {
      row.push_back(shown(table.rows[r][i], table.columns[i]));
      // Eight digits tell configurations apart; `--columns config_hash` and the files have all sixteen.
      if (o.columns.empty() && table.columns[i] == "config_hash") row.back().resize(8);
    }
  }
  print_table(text);
  fmt::print("{} rows{}\n", table.rows.size(),
             text.rows.size() < table.rows.size()
                 ? fmt::format(", {} shown (--limit 0 shows all; --csv F and --json F write all)", text.rows.size())
                 : "");
}

void run_table(const TableOptions& o, const Invocation& invocation) {
  if (o.csv == "-" && o.json == "-") throw Error("table: --csv and --json: the terminal takes one of them");
  const SweepView view = open_view(o.view, /*with_curves=*/o.table.grouped);
  const sweeps::ResultTable table = sweeps::result_table(view.results, view.costs, o.table);
  if (table.rows.empty() && !o.table.where.empty())
    print_notes({fmt::format("nothing matches --where '{}'", fmt::join(o.table.where, "' --where '"))});
  if (!o.csv.empty()) write_csv(o.csv, sweeps::to_csv(table), o.force);
  if (!o.json.empty()) {
    const nlohmann::ordered_json json = sweeps::to_json(table, view_provenance(view, invocation));
    if (o.json == "-") {
      print_json(json);
    } else {
      write_file(o.json, json_text(json) + "\n", o.force);
    }
  }
  if (o.csv.empty() && o.json.empty()) {
    sweeps::FrontOptions screening;
    screening.screening_only = true;
    const std::vector<sweeps::RaisedAlarm> alarms =
        sweeps::alarms(view.results, sweeps::fronts(view.results, view.costs, screening));
    print(table, o, short_axis_names(view.results.axes()));
    print_alarms(alarms);
  }
  if (view.hidden > 0)
    say("fp4sim: note: {} runs of other signatures (older arithmetic) are in the store and not shown\n", view.hidden);
}

}  // namespace

void command_table(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<TableOptions>();
  add_view_options(app, o->view);
  option(app, "--csv FILE", o->csv, "Write CSV to this file (`-`: to the terminal)");
  option(app, "--json FILE", o->json, "Write JSON to this file (alone or `-`: to the terminal)")
      ->expected(0, 1)
      ->default_str("-");
  option(app, "--where CONDITION", o->table.where,
         "COLUMN OP VALUE, OP one of = != < <= > >=, VALUE x or x|y (repeatable)");
  option(app, "--sort COLUMN,..", o->table.sort, "Sort by these columns, -COLUMN for falling");
  app.add_flag("--references", o->table.references, "Show the fp32 and bf16 runs that were added as references");
  app.add_flag("--group", o->table.grouped,
               "One row per configuration: n, mean, SD, raw 95 % interval, loss and digest of each seed");
  option(app, "--columns COLUMN,..", o->columns, "Columns of the terminal's table");
  defaulted(app, "--limit", o->limit, "Rows of the terminal's table, 0 = all");
  add_force_option(app, o->force);
  app.callback([o, &invocation] { run_table(*o, invocation); });
  set_example(app, "fp4sim table quick.sweep --group --where 'task=lm' --sort loss_gap");
}

}  // namespace fp4::tools
