// JSON as commands write it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace fp4::tools {

/// On one line, or with `indent`; bytes that are no UTF-8 (of a file's name) become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& value, int indent = -1) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace fp4::tools
