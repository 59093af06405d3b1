// Fields of a struct as JSON under their own names, so that a key and a member are one word:
//   FP4_NAMED(row.recipe, row.devices, memory.total())  is  {"recipe": .., "devices": .., "total": ..}
// in this order. A value that may be absent is null then. Arguments are members and calls without arguments.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/words.h"

namespace fp4 {

/// "row.recipe, memory.total()": recipe, total.
inline std::vector<std::string> member_names(std::string_view arguments) {
  std::vector<std::string> names;
  for (const std::string& argument : split(std::string(arguments), ',')) {
    const size_t begin = argument.find_last_of(".>: ") + 1;  // behind "row." or "row->"; 0 where nothing stands before
    names.push_back(argument.substr(begin, argument.find('(') - begin));
  }
  return names;
}

template <class T>
const T& or_null(const T& value) {
  return value;
}
template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

template <class... Values>
nlohmann::ordered_json json_of_members(std::string_view arguments, const Values&... values) {
  const std::vector<std::string> names = member_names(arguments);
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  auto name = names.begin();
  ((out[*name++] = or_null(values)), ...);
  return out;
}
#define FP4_NAMED(...) fp4::json_of_members(#__VA_ARGS__, __VA_ARGS__)

/// One object of several, their keys in this order.
inline nlohmann::ordered_json joined_json(std::initializer_list<nlohmann::ordered_json> objects) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const nlohmann::ordered_json& object : objects) out.update(object);
  return out;
}

}  // namespace fp4
