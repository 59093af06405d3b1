// The result table: one row per run, or one per configuration over its seeds; filtered, sorted, written as CSV or JSON.
// Losses and metrics of a run are exact; costs, gaps and statistics have nine significant digits. `runs`, the last
// column of a configuration's row, has the loss and the digest of each seed: "1:0.358:7e25c8a1b2c3d4e5 2:diverged". Two
// exports of the same work are equal byte for byte but for `seconds` and the provenance block.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "sweeps/judge/costs.h"

namespace fp4::sweeps {

// Text, a number, a whole number, or nothing (an empty CSV field, null in JSON).
using Cell = std::variant<std::monostate, std::string, double, int64_t>;

struct ResultTable {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

// Further cells of a row, of cells, texts and numbers of any type.
template <class... Values>
void add_cells(std::vector<Cell>& row, const Values&... values) {
  const auto cell_of = []<class Value>(const Value& value) -> Cell {
    if constexpr (std::is_integral_v<Value>)
      return static_cast<int64_t>(value);
    else if constexpr (std::is_same_v<Value, std::string_view>)
      return std::string(value);
    else
      return value;
  };
  (row.push_back(cell_of(values)), ...);
}

struct TableOptions {
  bool references = false;
  // One row per (task, configuration, role): n, diverged, mean, SD, raw interval, of the runs that finished; rungs near
  // a best that judge it as well have rows of their own, `at` = near best.
  bool grouped = false;
  std::vector<std::string> where;  // each `COLUMN OP VALUE`, OP one of = != < <= > >=, VALUE x or x|y|z
  std::vector<std::string> sort;   // columns, "-COLUMN" for descending; by default (task, config hash, seed)
};

ResultTable result_table(const Results& results, const Costs& costs, const TableOptions& options);

std::string to_csv(const ResultTable& table);
// [{column: value}]
nlohmann::ordered_json row_objects(const ResultTable& table);
// {"schema", "columns", "rows" [{column: value}], "provenance"}
nlohmann::ordered_json to_json(const ResultTable& table, const nlohmann::ordered_json& provenance);

// Numbers in their shortest exact text, as CSV, JSON and terminal show them.
std::string text_of(const Cell& cell);

}  // namespace fp4::sweeps
