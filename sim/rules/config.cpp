// Canonical JSON from schema rows; see config.h.
#include "sim/rules/config.h"

#include <algorithm>

#include "src/files/sha256.h"
#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4::sim {

namespace {

std::string list_of(const Schema& schema) {
  return joined(schema, ", ", [](const Field& f) { return f.path; });
}

// `value` with the type of the row, or an Error that says what the row accepts.
Json typed(const Field& f, const JsonReader& value) {
  const Json& like = f.default_value;
  if (like.is_boolean()) return value.boolean();
  if (like.is_number_integer()) {  // every integer of a schema fits 53 bits
    const auto limit = [](double bound) { return static_cast<int64_t>(std::clamp(bound, -0x1p53, 0x1p53)); };
    return value.integer(limit(f.low), limit(f.high));
  }
  if (like.is_number()) return value.number(f.low, f.high);
  return f.words.empty() ? value.text() : f.words[value.word(f.words)];
}

void check_known(const Schema& schema, const Json& given, const std::string& prefix, const std::string& place) {
  for (const auto& [key, value] : given.items()) {
    const std::string path = prefix + key;
    bool leaf = false, branch = false;
    for (const Field& f : schema) {
      leaf = leaf || f.path == path;
      branch = branch || f.path.rfind(path + ".", 0) == 0;
    }
    if (branch && value.is_object()) {
      check_known(schema, value, path + ".", place);
    } else if (leaf && key.find('.') != std::string::npos) {
      throw Error(place + ": " + path + ": write it as nested objects, not with a dot in the key");
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
    if (!at->is_object() && !at->is_null())
      throw Error("'" + std::string(path) + "' has no place below " + shown(*at) + ", which is no object");
    at = &(*at)[std::string(path.substr(0, dot))];
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  *at = std::move(value);
}

Json canonical(const Schema& schema, const Json& given, const std::string& place) {
  Json result = Json::object();
  if (!given.is_object() && !given.is_null())
    throw Error(place + ": expected an object, found " + shown(given) + "; its fields: " + list_of(schema));
  check_known(schema, given, "", place);
  for (const Field& f : schema) {
    const Json* value = at_path(given, f.path);
    set_path(result, f.path, value ? typed(f, {*value, place + ": " + f.path}) : f.default_value);
  }
  return result;
}

Schema with_defaults(Schema schema, const Json& defaults) {
  for (Field& f : schema)
    if (const Json* value = at_path(defaults, f.path)) f.default_value = typed(f, {*value, f.path});
  return schema;
}

std::string canonical_text(const Json& value) { return value.dump(); }

std::string content_hash(const Json& value) { return sha256_hex(canonical_text(value)).substr(0, 16); }

}  // namespace fp4::sim
