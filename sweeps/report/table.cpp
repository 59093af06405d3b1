// See table.h. Rows start in the order (task, config hash, seed); sorting is stable on top of it.
#include "sweeps/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "src/text/csv.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/judge/statistics.h"
#include "sweeps/judge/tokens.h"

namespace fp4::sweeps {

namespace {

constexpr int table_schema = 1;

Cell number(const std::optional<double>& value) {
  if (!value || std::isnan(*value)) return {};
  return *value;
}

// What is computed from results (costs, gaps, means) in nine significant digits: more would be noise of the last bits
// and a third of a file. What a run returned stays exact.
Cell derived(const std::optional<double>& value) {
  if (!value || std::isnan(*value)) return {};
  return std::stod(fmt::format("{:.9g}", *value));
}

Cell points(const Cost& cost) {
  if (cost.points == 0) return {};
  return cost.points;
}

std::vector<Cell> head(const ConfigResult& config) {
  std::vector<Cell> cells;
  for (const std::string& label : config.labels) cells.emplace_back(label);
  cells.emplace_back(config.record.task);
  return cells;
}

void add_costs(std::vector<Cell>& cells, const Cost& cost) {
  add_cells(cells, derived(cost.overhead), derived(cost.quantisation_overhead), derived(cost.step_time_s),
            derived(cost.energy_j), points(cost));
}

// The learning rate, and whether it is the grid's, the configuration's own best, or a best at an end of its ladder.
void add_rate(std::vector<Cell>& cells, const ConfigResult& config) {
  add_cells(cells, number(tuned_value(Json::parse(config.record.config), "train.lr")), word(config.record.at));
}

// The 95 % interval of a raced configuration's overhead by the doubts of the cost model; of others, of which there may
// be thousands, none.
void add_overhead_interval(std::vector<Cell>& cells, const ConfigResult& config, const Costs& costs) {
  const bool raced = std::any_of(config.runs.begin(), config.runs.end(),
                                 [](const RunRecord& run) { return run.role == Role::confirm; });
  const auto range = raced ? costs.overhead_range(config) : std::nullopt;
  add_cells(cells, range ? derived(range->first) : Cell{}, range ? derived(range->second) : Cell{});
}

// Whose step the cost columns are of.
std::string priced(const Costs& costs) { return costs.model().model + " on " + costs.model().hardware; }

// A gap as a share of fp32's loss.
Cell relative(const std::optional<double>& gap, const LossScale& scale) {
  if (!gap || !(scale.loss > 0)) return {};
  return derived(*gap / scale.loss);
}

// A share, or, where only a bound is known, the text ">0.6".
Cell extra_cell(const std::optional<ExtraTokens>& extra) {
  if (!extra) return {};
  if (extra->bound == Bound::exact) return derived(extra->share);
  return fmt::format("{}{}", extra->bound == Bound::above ? ">" : "<", extra->share);
}

// A configuration in the plan may also carry reference rows (confirm seeds of a baseline): they count as references.
bool shown(const RunRecord& run, const TableOptions& options) {
  return options.references || run.role != Role::reference;
}

// What else the tasks measure (accuracy, Wasserstein distance ...), by name.
std::set<std::string> metrics_of(const Results& results) {
  std::set<std::string> metrics;
  for (const ConfigResult& config : results.configs())
    for (const RunRecord& run : config.runs)
      for (const auto& [name, value] : run.metrics) metrics.insert(name);
  return metrics;
}

// A grid may have an axis of such a name: `weights` are rules of the recipe, and lm measures how many it has.
void add_metric_columns(ResultTable& table, const std::set<std::string>& metrics) {
  for (const std::string& name : metrics)
    table.columns.push_back(contains(table.columns, name) ? "measured." + name : name);
}

// "1:0.358:7e25c8a1b2c3d4e5", or "1:diverged"; trunks and branches have no digest.
std::string run_text(const RunRecord& run) {
  const std::optional<double> loss = metric_of(run, Metric::loss);
  return fmt::format("{}:{}{}{}", run.seed,
                     run.status == Status::finished && loss ? fmt::format("{}", *loss) : word(run.status),
                     run.digest.empty() ? "" : ":", run.digest);
}

// The recipe's name, unless an axis of that name says it already: two columns of one name serve nobody.
bool has_recipe_column(const Results& results) { return !contains(results.axes(), "recipe"); }

ResultTable run_rows(const Results& results, const Costs& costs, const TableOptions& options) {
  ResultTable table;
  table.columns = results.axes();
  table.columns.insert(table.columns.end(), {"task", "seed", "status", "role", "loss", "loss_hp", "loss_gap",
                                             "overhead", "quantisation_overhead", "step_time_s", "energy_j", "points",
                                             "digest", "seconds", "config_hash", "message"});
  const bool recipe = has_recipe_column(results);
  if (recipe) table.columns.emplace_back("recipe");
  const bool sampled = results.grid().explore == Explore::importance;
  if (sampled) table.columns.emplace_back("probability");
  table.columns.insert(table.columns.end(), {"lr", "at", "relative_gap", "fp4_share", "priced"});
  const std::set<std::string> metrics = metrics_of(results);  // empty where a task does not have it
  add_metric_columns(table, metrics);
  for (const ConfigResult& config : results.configs()) {
    const LossScale scale = loss_scale(results, config);
    for (const RunRecord& run : config.runs) {
      if (!shown(run, options)) continue;
      std::vector<Cell> row = head(config);
      add_cells(row, run.seed, word(run.status), word(run.role), number(metric_of(run, Metric::loss)),
                number(metric_of(run, Metric::loss_hp)), derived(results.gap(config, run)));
      add_costs(row, costs.of(config));
      add_cells(row, run.digest, run.seconds, config.record.hash, run.message);
      if (recipe) row.emplace_back(config.record.recipe);
      if (sampled) row.emplace_back(config.record.probability);
      add_rate(row, config);
      add_cells(row, relative(results.gap(config, run), scale), derived(costs.of(config).fp4_share), priced(costs));
      for (const std::string& name : metrics) row.push_back(number(measured(run, name)));
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

// long: one table, its columns and below them its cells
ResultTable group_rows(const Results& results, const Costs& costs, const TableOptions& options) {
  ResultTable table;
  table.columns = results.axes();
  table.columns.insert(table.columns.end(),
                       {"task", "role", "n", "diverged", "failed", "loss", "loss_sd", "loss_hp", "loss_gap",
                        "loss_gap_sd", "loss_gap_raw_low", "loss_gap_raw_high", "overhead", "quantisation_overhead",
                        "step_time_s", "energy_j", "points", "config_hash"});
  const bool recipe = has_recipe_column(results);
  if (recipe) table.columns.emplace_back("recipe");
  table.columns.insert(table.columns.end(), {"lr", "at", "relative_gap", "extra_tokens_fp32", "extra_tokens_mxfp8",
                                             "fp4_share", "overhead_low", "overhead_high", "priced"});
  const std::set<std::string> metrics = metrics_of(results);
  add_metric_columns(table, metrics);
  table.columns.emplace_back("runs");
  const TokenCurves curves(results);
  const auto add_rows = [&](const ConfigResult& config) {
    for (const Role role : {Role::run, Role::confirm, Role::reference}) {
      std::vector<double> loss, loss_hp, gap;
      size_t diverged = 0, failed = 0;
      std::map<std::string, std::vector<double>> others;
      std::string runs;
      for (const RunRecord& run : config.runs) {
        if (run.role != role || !shown(run, options)) continue;
        add_word(runs, run_text(run), " ");
        diverged += run.status == Status::diverged;
        failed += run.status == Status::failed;
        if (const auto value = metric_of(run, Metric::loss)) loss.push_back(*value);
        if (const auto value = metric_of(run, Metric::loss_hp)) loss_hp.push_back(*value);
        if (const auto value = results.gap(config, run)) gap.push_back(*value);
        for (const std::string& name : metrics)
          if (const auto value = measured(run, name); value && !std::isnan(*value)) others[name].push_back(*value);
      }
      if (runs.empty()) continue;
      const auto mean = [](const std::vector<double>& values) {
        return values.empty() ? Cell{} : derived(summarise(values).mean);
      };
      const auto spread = [](const std::vector<double>& values) {
        return values.size() < 2 ? Cell{} : derived(summarise(values).sd);
      };
      const Summary gaps = summarise(gap);
      std::vector<Cell> row = head(config);
      add_cells(row, word(role), loss.size(), diverged, failed, mean(loss), spread(loss), mean(loss_hp), mean(gap),
                spread(gap), gaps.interval ? derived(gaps.interval->low) : Cell{},
                gaps.interval ? derived(gaps.interval->high) : Cell{});
      add_costs(row, costs.of(config));
      row.emplace_back(config.record.hash);
      if (recipe) row.emplace_back(config.record.recipe);
      add_rate(row, config);
      row.push_back(relative(gaps.n == 0 ? std::nullopt : std::optional(gaps.mean), loss_scale(results, config)));
      for (const char* baseline : {"fp32", "mxfp8"})
        row.push_back(config.record.at == At::near
                          ? Cell{}
                          : extra_cell(curves.over(config, baseline, role == Role::confirm, {})));
      row.push_back(derived(costs.of(config).fp4_share));
      add_overhead_interval(row, config, costs);
      row.emplace_back(priced(costs));
      for (const std::string& name : metrics) row.push_back(mean(others[name]));
      row.emplace_back(std::move(runs));
      table.rows.push_back(std::move(row));
    }
  };
  for (const ConfigResult& config : results.configs()) {
    add_rows(config);
    for (const ConfigResult& near : config.near)
      if (near.record.at == At::near) add_rows(near);
  }
  return table;
}

std::optional<double> as_number(const Cell& cell) {
  if (const double* value = std::get_if<double>(&cell)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&cell)) return static_cast<double>(*value);
  if (const std::string* text = std::get_if<std::string>(&cell)) return real_from_text(*text);
  return std::nullopt;
}

struct Condition {
  size_t column;
  std::string operation;
  std::vector<std::string> values;

  bool holds(const std::vector<Cell>& row) const {
    const Cell& cell = row[column];
    if (operation == "=" || operation == "!=") {
      const bool any = std::any_of(values.begin(), values.end(), [&](const std::string& value) {
        if (text_of(cell) == value) return true;
        const auto mine = as_number(cell);
        const auto theirs = real_from_text(value);
        return mine && theirs && *mine == *theirs;  // 0.50 = 0.5
      });
      return any == (operation == "=");
    }
    const auto mine = as_number(cell);
    if (!mine) return false;  // nothing is neither below nor above anything
    const double theirs = *real_from_text(values.front());
    if (operation == "<") return *mine < theirs;
    if (operation == "<=") return *mine <= theirs;
    if (operation == ">") return *mine > theirs;
    return *mine >= theirs;
  }
};

Condition parse_condition(const ResultTable& table, const std::string& text) {
  const std::string place = "--where '" + text + "'";
  const size_t at = text.find_first_of("=!<>");
  if (at == std::string::npos || at == 0)
    throw Error(place + ": expected COLUMN OP VALUE with OP one of = != < <= > >=");
  const bool wide = at + 1 < text.size() && text[at + 1] == '=';
  const auto trim = [](std::string part) {
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    return part;
  };
  Condition condition{.column = accepted_index(place, trim(text.substr(0, at)), table.columns),
                      .operation = text.substr(at, wide ? 2 : 1),
                      .values = {}};
  if (condition.operation == "==") condition.operation = "=";
  if (condition.operation == "!") throw Error(place + ": `!` is only known as !=");
  for (const std::string& value : split(text.substr(at + (wide ? 2 : 1)), '|')) condition.values.push_back(trim(value));
  const bool ordered = condition.operation != "=" && condition.operation != "!=";
  if (ordered && (condition.values.size() != 1 || !as_number(condition.values.front())))
    throw Error(place + ": " + condition.operation + " wants one number");
  return condition;
}

// Nothing sorts last, numbers before words.
bool less(const Cell& a, const Cell& b, bool descending) {
  const bool empty_a = std::holds_alternative<std::monostate>(a);
  const bool empty_b = std::holds_alternative<std::monostate>(b);
  if (empty_a || empty_b) return !empty_a && empty_b;
  const auto number_a = as_number(a);
  const auto number_b = as_number(b);
  if (number_a && number_b) return descending ? *number_a > *number_b : *number_a < *number_b;
  if (number_a.has_value() != number_b.has_value()) return number_a.has_value() != descending;
  return descending ? text_of(a) > text_of(b) : text_of(a) < text_of(b);
}

}  // namespace

std::string text_of(const Cell& cell) {
  if (const std::string* text = std::get_if<std::string>(&cell)) return *text;
  if (const int64_t* value = std::get_if<int64_t>(&cell)) return std::to_string(*value);
  if (const double* value = std::get_if<double>(&cell)) return fmt::format("{}", *value);  // shortest exact
  return "";
}

ResultTable result_table(const Results& results, const Costs& costs, const TableOptions& options) {
  ResultTable table = options.grouped ? group_rows(results, costs, options) : run_rows(results, costs, options);
  for (const std::string& text : options.where) {
    const Condition condition = parse_condition(table, text);
    std::erase_if(table.rows, [&](const std::vector<Cell>& row) { return !condition.holds(row); });
  }
  for (size_t i = options.sort.size(); i-- > 0;) {  // the first key decides, so it is sorted by last
    const std::string& key = options.sort[i];
    const bool descending = key.starts_with('-');
    const size_t column = accepted_index("--sort", descending ? key.substr(1) : key, table.columns);
    std::stable_sort(table.rows.begin(), table.rows.end(),
                     [&](const auto& a, const auto& b) { return less(a[column], b[column], descending); });
  }
  return table;
}

std::string to_csv(const ResultTable& table) {
  std::string out = joined(table.columns, ",", csv_field) + "\n";
  for (const auto& row : table.rows)
    out += joined(row, ",", [](const Cell& cell) { return csv_field(text_of(cell)); }) + "\n";
  return out;
}

nlohmann::ordered_json row_objects(const ResultTable& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    nlohmann::ordered_json& object = rows.emplace_back(nlohmann::ordered_json::object());
    for (size_t i = 0; i < row.size(); ++i) {
      nlohmann::ordered_json cell = nullptr;
      if (const std::string* text = std::get_if<std::string>(&row[i])) cell = *text;
      if (const int64_t* value = std::get_if<int64_t>(&row[i])) cell = *value;
      if (const double* value = std::get_if<double>(&row[i])) cell = *value;
      object.push_back({table.columns[i], std::move(cell)});
    }
  }
  return rows;
}

nlohmann::ordered_json to_json(const ResultTable& table, const nlohmann::ordered_json& provenance) {
  return {
      {"schema", table_schema}, {"columns", table.columns}, {"rows", row_objects(table)}, {"provenance", provenance}};
}

}  // namespace fp4::sweeps
