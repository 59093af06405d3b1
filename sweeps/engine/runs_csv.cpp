#include "sweeps/engine/runs_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/files/sha256.h"
#include "src/text/csv.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"
#include "src/text/words.h"

namespace fp4::sweeps {

namespace {

constexpr std::array<const char*, 18> run_table_columns = {
    "sweep",   "recipe", "task",    "config_hash", "seed",    "role",      "status",          "loss",
    "loss_hp", "digest", "seconds", "backend",     "version", "signature", "train_signature", "message",
    "metrics", "curve"};

constexpr std::string_view grid_mark = "#grid,";

// The same and the hash of the line.
std::string header_line() {
  std::string line;
  for (const char* column : run_table_columns) line += std::string(column) + ",";
  return line + "row_hash";
}

std::string number_field(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

std::string text_field(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return csv_field(text);
}

// name=value;name=value
std::string metrics_field(const RunRecord& run) {
  std::string text;
  for (const auto& [name, value] : run.metrics) add_word(text, name + "=" + number_field(value), ";");
  return text;
}

// step:training loss:validation loss;...
std::string curve_field(const Curve& curve) {
  std::string text;
  for (size_t i = 0; i < curve.step.size(); ++i)
    text += fmt::format("{}{}:{}:{}", i == 0 ? "" : ";", curve.step[i], number_field(curve.train_loss[i]),
                        number_field(curve.validation_loss[i]));
  return text;
}

std::string line_hash(std::string_view line) { return sha256_hex(line).substr(0, 16); }

void check_line_hash(std::string_view line, const std::vector<std::string>& fields, const std::string& place) {
  if (line_hash(line.substr(0, line.rfind(',') + 1)) != fields.back())
    throw Error(place + ": row_hash '" + fields.back() + "' does not fit: the line was changed after it was written",
                Error::failed);
}

std::optional<double> parse_number(const std::string& text, const std::string& place) {
  if (text.empty()) return std::nullopt;
  const auto value = real_from_text(text);
  if (!value) throw Error(place + ": expected a number, not '" + text + "'");
  return value;
}

// The pieces between separators; none of an empty text.
std::vector<std::string> pieces(const std::string& text, char separator) {
  return text.empty() ? std::vector<std::string>() : split(text, separator);
}

RunRow parse_row(const std::vector<std::string>& fields, const std::string& place) {
  size_t next = 0;
  const auto take = [&] { return fields[next++]; };
  const auto here = [&] { return place + ": " + run_table_columns[next - 1]; };
  const auto number = [&] {
    const std::string text = take();
    return parse_number(text, here());
  };
  const auto integer = [&] {
    const std::string text = take();
    const auto value = integer_from_text<uint64_t>(text);
    if (!value) throw Error(here() + ": expected a whole number, not '" + text + "'");
    return *value;
  };
  RunRow row{.place = place};
  RunRecord& run = row.run;
  row.sweep = take();
  row.recipe = take();
  run.task = take();
  run.hash = take();
  run.seed = integer();
  at_place(place, [&] { return run.role = parse_role(take()); });
  at_place(place, [&] { return run.status = parse_status(take()); });
  run.loss = number();
  run.loss_hp = number();
  run.digest = take();
  run.seconds = number().value_or(0);
  run.backend = take();
  row.version = take();
  row.signature = take();
  row.train_signature = take();
  run.message = take();
  for (const std::string& metric : pieces(take(), ';')) {
    const size_t equals = metric.find('=');
    if (equals == std::string::npos) throw Error(here() + ": expected NAME=NUMBER, not '" + metric + "'");
    run.metrics.emplace_back(metric.substr(0, equals),
                             parse_number(metric.substr(equals + 1), here()).value_or(std::nan("")));
  }
  for (const std::string& point : pieces(take(), ';')) {
    const std::vector<std::string> parts = split(point, ':');
    if (parts.size() != 3) throw Error(here() + ": expected STEP:LOSS:LOSS, not '" + point + "'");
    run.curve.step.push_back(parse_number(parts[0], here()).value_or(0));
    run.curve.train_loss.push_back(parse_number(parts[1], here()).value_or(std::nan("")));
    run.curve.validation_loss.push_back(parse_number(parts[2], here()).value_or(std::nan("")));
  }
  return row;
}

// What a table said of a configuration. A store keeps it under the key `imported`, so that a table of imported runs has
// their names before a plan holds them.
struct Names {
  std::string sweep, recipe;
};
using NamesByHash = std::map<std::string, Names>;
constexpr const char* imported_key = "imported";

NamesByHash imported_names(const Store& store) {
  NamesByHash names;
  const std::string text = store.meta(imported_key);
  if (text.empty()) return names;
  at_place(store.file().string() + ": imported", [&] {
    const nlohmann::json json = parse_json(text, "its text");
    for (const auto& [hash, pair] : json.items())
      names[hash] = {pair.at(0).get<std::string>(), pair.at(1).get<std::string>()};
    return 0;
  });
  return names;
}

void keep_names(Store& store, const std::vector<RunRow>& rows) {
  NamesByHash names = imported_names(store);
  for (const RunRow& row : rows)
    if (!row.recipe.empty()) names[row.run.hash] = {row.sweep, row.recipe};
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [hash, n] : names) json[hash] = {n.sweep, n.recipe};
  store.set_meta(imported_key, json.dump());
}

}  // namespace

std::string runs_csv(const Store& store) {
  const std::string sweep = store.meta("name");
  NamesByHash names = imported_names(store);
  for (const ConfigRecord& config : store.configs(/*with_text=*/false)) names[config.hash] = {sweep, config.recipe};
  std::vector<RunRecord> runs = store.runs(/*with_curves=*/true);
  const auto place = [&](const RunRecord& r) { return std::tie(r.task, names[r.hash].recipe, r.hash, r.seed); };
  std::sort(runs.begin(), runs.end(), [&](const RunRecord& a, const RunRecord& b) { return place(a) < place(b); });
  std::string text = header_line() + "\n";
  for (const RunRecord& run : runs) {
    if (run.status == Status::failed) continue;
    std::string line;
    for (const std::string& field :
         {text_field(sweep.empty() ? names[run.hash].sweep : sweep), text_field(names[run.hash].recipe), run.task,
          run.hash, std::to_string(run.seed), std::string(word(run.role)), std::string(word(run.status)),
          number_field(run.loss), number_field(run.loss_hp), run.digest, number_field(run.seconds), run.backend,
          store.identity().version, store.identity().signature, store.identity().train_signatures.at(run.task),
          text_field(run.message), metrics_field(run), curve_field(run.curve)})
      line += field + ",";
    text += line + line_hash(line) + "\n";
  }
  if (const std::string grid = store.meta("grid"); !grid.empty()) {
    const std::string line = std::string(grid_mark) + csv_field(sweep) + "," + csv_field(grid) + "," +
                             csv_field(store.meta("recipes")) + ",";
    text += line + line_hash(line) + "\n";
  }
  return text;
}

GridTexts parse_runs_grid(const std::string& text, const std::string& place) {
  const size_t found = text.rfind("\n" + std::string(grid_mark));
  if (found == text.npos) return {};
  const std::string_view line = std::string_view(text).substr(found + 1, text.find('\n', found + 1) - found - 1);
  const std::vector<std::string> fields = csv_fields(line);
  if (fields.size() != 5) throw Error(fmt::format("{}, line #grid: {} fields, expected {}", place, fields.size(), 5));
  check_line_hash(line, fields, place + ", line #grid");
  return {fields[1], fields[2], fields[3]};
}

std::vector<RunRow> parse_runs_csv(const std::string& text, const std::string& place) {
  std::vector<RunRow> rows;
  size_t at = 0;
  for (size_t number = 1; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    const std::string here = fmt::format("{}, line {}", place, number);
    if (line.find('\0') != line.npos)
      throw Error(here + ": a byte 0, so this is no text; expected a table of `fp4sim sweep export`");
    const std::vector<std::string> fields = csv_fields(line);
    if (number == 1) {
      const std::vector<std::string> wanted = csv_fields(header_line());
      for (size_t i = 0; i < wanted.size(); ++i)
        if (i >= fields.size() || fields[i] != wanted[i])
          throw Error(fmt::format("{}: column {} is '{}', expected '{}' (a table of `fp4sim sweep export`)", here,
                                  i + 1, i < fields.size() ? fields[i] : "", wanted[i]));
      if (fields.size() > wanted.size()) throw Error(here + ": unknown column '" + fields[wanted.size()] + "'");
      continue;
    }
    if (line.starts_with(grid_mark)) continue;  // parse_runs_grid reads it
    if (fields.size() != run_table_columns.size() + 1)
      throw Error(fmt::format("{}: {} fields, expected {}", here, fields.size(), run_table_columns.size() + 1));
    check_line_hash(line, fields, here);
    rows.push_back(parse_row(fields, here));
  }
  if (at == 0) throw Error(place + ", line 1: empty; expected a table of `fp4sim sweep export`");
  return rows;
}

size_t import_runs(const std::vector<RunRow>& rows, const std::filesystem::path& folder, const std::string& signature,
                   const std::function<std::string(const std::string& task)>& train_signature) {
  std::map<std::string, std::string> by_task;
  for (const RunRow& row : rows) {
    if (!by_task.contains(row.run.task))
      at_place(row.place + ": task", [&] { return by_task[row.run.task] = train_signature(row.run.task); });
    const std::string& mine = by_task.at(row.run.task);
    const bool arithmetic = row.signature != signature;
    if (arithmetic || row.train_signature != mine)
      throw Error(fmt::format("{}: {} '{}', this program has {}: its runs are not to be mixed", row.place,
                              arithmetic ? "signature" : "train_signature",
                              arithmetic ? row.signature : row.train_signature, arithmetic ? signature : mine),
                  Error::failed);
  }
  std::map<std::string, std::vector<RunRecord>> by_version;
  for (const RunRow& row : rows) by_version[row.version].push_back(row.run);
  size_t fresh = 0;
  for (const auto& [version, runs] : by_version) {
    Store store =
        Store::open(folder, {.signature = signature, .train_signatures = by_task, .version = version, .host = ""});
    const size_t before = store.runs().size();
    store.insert(runs);
    keep_names(store, rows);
    fresh += store.runs().size() - before;
    store.finish();
  }
  return fresh;
}

}  // namespace fp4::sweeps
