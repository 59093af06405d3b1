// Fields of a section that are asked for in one line. An absent field keeps its value, which is what the reference
// shows as its default. `doc` says what the field is.
#pragma once

#include <fmt/core.h>

#include <string>
#include <type_traits>

#include "fp4/axis.h"
#include "src/text/json_reader.h"

namespace fp4 {

/// A field whose words are the rows of an axis table.
template <class Table, class Id>
void read_row(JsonReader& given, const char* key, const char* doc, const Table& table, Id& id) {
  if (const auto word = given.find(key, {doc, row_of(table, id).name})) id = word->row(table).id;
}

/// A switch, a text, or a number from `low` to `high`.
template <class T>
void read_field(JsonReader& given, const char* key, const char* doc, T& field, double low = -huge, double high = huge) {
  Json fallback = field;
  if constexpr (std::is_same_v<T, float>) fallback = std::stod(fmt::format("{}", field));  // 0.01, not 0.00999999977
  const auto value = given.find(key, {doc, fallback});
  if (!value) return;
  if constexpr (std::is_same_v<T, bool>)
    field = value->boolean();
  else if constexpr (std::is_same_v<T, std::string>)
    field = value->text();
  else if constexpr (std::is_integral_v<T>)
    field = static_cast<T>(value->integer(static_cast<int64_t>(low), static_cast<int64_t>(high)));
  else
    field = static_cast<T>(value->number(low, high));
}

}  // namespace fp4
