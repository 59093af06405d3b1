// The axis pattern: a design axis is an enum, a table of rows (id, name, doc, source, facts) in one header and one
// function with a switch. JSON, command line, grids, tests, cost model and report loop over the tables, so a
// new variant is an enumerator, a row and a case. Host only: device code never indexes a table.
#pragma once

#include <cstddef>
#include <string_view>

namespace fp4 {

// Rows of axes that have no facts of their own.
template <class Id>
struct AxisWord {
  Id id;
  const char* name;
  const char* doc;
};
template <class Id>
struct AxisRow {
  Id id;
  const char* name;
  const char* doc;
  const char* source;
};

template <class Row, std::size_t N>
constexpr bool ids_are_indices(const Row (&table)[N]) {
  for (std::size_t i = 0; i < N; ++i) {
    if (static_cast<std::size_t>(table[i].id) != i) return false;
  }
  return true;
}

// Whether a fact of the rows is what a function for devices says (a switch, as device code indexes no table).
template <class Row, std::size_t N, class Holds>
constexpr bool rows_agree(const Row (&table)[N], Holds holds) {
  for (const Row& row : table) {
    if (!holds(row)) return false;
  }
  return true;
}

// The row of an enumerator.
template <class Row, std::size_t N, class Id>
constexpr const Row& row_of(const Row (&table)[N], Id id) {
  return table[static_cast<std::size_t>(id)];
}

// The row of a name, or nullptr.
template <class Row, std::size_t N>
constexpr const Row* find_row(const Row (&table)[N], std::string_view name) {
  for (const Row& row : table) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace fp4
