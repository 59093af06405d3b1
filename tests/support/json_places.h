// Where a document can be changed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fp4::test {

// Pointers to every value inside `at`, objects and arrays too.
inline void places_in(const nlohmann::json& at, const nlohmann::json::json_pointer& here,
                      std::vector<nlohmann::json::json_pointer>& out) {
  if (!here.empty()) out.push_back(here);
  if (!at.is_structured()) return;
  for (const auto& [key, value] : at.items())
    places_in(value, at.is_array() ? here / std::stoul(key) : here / key, out);
}

}  // namespace fp4::test
