// Canonical JSON from schema rows; see config.h.
#include "sim/config.h"

#include <cmath>

#include "src/error.h"
#include "src/sha256.h"

namespace fp4::sim {

namespace {

std::string list_of(const Schema& schema) {
  std::string text;
  for (const Field& f : schema) text += (text.empty() ? "" : ", ") + f.path;
  return text;
}

std::string kind_of(const Json& v) {
  if (v.is_boolean()) return "true or false";
  if (v.is_number_integer()) return "a whole number";
  if (v.is_number()) return "a number";
  if (v.is_string()) return "text";
  return v.type_name();
}

// `value` with the type of the row, or an Error that says what the row accepts.
Json typed(const Field& f, const Json& value, const std::string& place) {
  const Json& like = f.default_value;
  Json result;
  if (like.is_boolean() && value.is_boolean()) result = value;
  if (like.is_string() && value.is_string()) result = value;
  if (like.is_number_float() && value.is_number()) result = value.get<double>();
  if (like.is_number_integer() && value.is_number_integer()) result = value.get<int64_t>();
  // 128.0 is a whole number too: grids are often written by programs.
  if (like.is_number_integer() && value.is_number_float() && value.get<double>() == std::floor(value.get<double>()) &&
      std::fabs(value.get<double>()) < 9e15)
    result = static_cast<int64_t>(value.get<double>());
  if (result.is_null()) throw Error(place + ": " + value.dump() + " is not " + kind_of(like));
  if (result.is_string() && !f.words.empty()) {
    bool known = false;
    for (const std::string& word : f.words) known = known || word == result;
    if (!known) throw unknown_word(place, result.get<std::string>(), f.words);
  }
  if (result.is_number()) {
    const double v = result.get<double>();
    if (!(v >= f.low && v <= f.high))
      throw Error(place + ": " + value.dump() + " is outside " + Json(f.low).dump() + " .. " + Json(f.high).dump());
  }
  return result;
}

void check_known(const Schema& schema, const Json& given, const std::string& prefix, std::string_view place) {
  for (const auto& [key, value] : given.items()) {
    const std::string path = prefix + key;
    bool leaf = false, branch = false;
    for (const Field& f : schema) {
      leaf = leaf || f.path == path;
      branch = branch || f.path.rfind(path + ".", 0) == 0;
    }
    if (branch && value.is_object()) {
      check_known(schema, value, path + ".", place);
    } else if (!leaf) {
      std::vector<std::string> accepted;
      for (const Field& f : schema) accepted.push_back(f.path);
      throw unknown_word(place, path, accepted);
    }
  }
}

}  // namespace

const Json* at_path(const Json& object, std::string_view path) {
  const Json* at = &object;
  while (true) {
    const size_t dot = path.find('.');
    if (!at->is_object()) return nullptr;
    const auto found = at->find(std::string(path.substr(0, dot)));
    if (found == at->end()) return nullptr;
    at = &*found;
    if (dot == std::string_view::npos) return at;
    path.remove_prefix(dot + 1);
  }
}

void set_path(Json& object, std::string_view path, Json value) {
  Json* at = &object;
  while (true) {
    const size_t dot = path.find('.');
    at = &(*at)[std::string(path.substr(0, dot))];
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  *at = std::move(value);
}

Json canonical(const Schema& schema, const Json& given, std::string_view place) {
  if (!given.is_object() && !given.is_null())
    throw Error(std::string(place) + ": expected an object with the fields " + list_of(schema));
  Json result = Json::object();
  if (given.is_object()) check_known(schema, given, "", place);
  for (const Field& f : schema) {
    const Json* value = at_path(given, f.path);
    set_path(result, f.path, value ? typed(f, *value, std::string(place) + ", " + f.path) : f.default_value);
  }
  return result;
}

Schema with_defaults(Schema schema, const Json& defaults) {
  for (Field& f : schema)
    if (const Json* value = at_path(defaults, f.path)) f.default_value = typed(f, *value, f.path);
  return schema;
}

std::string canonical_text(const Json& value) { return value.dump(); }

std::string content_hash(const Json& value) { return sha256_hex(canonical_text(value)).substr(0, 16); }

}  // namespace fp4::sim
