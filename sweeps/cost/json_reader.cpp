// Words are checked when the last key has been asked for (finish), so that the list of accepted words in the message is
// the list of keys the reader really knows; nothing is written down twice.
#include "sweeps/cost/json_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "src/embedded.h"
#include "src/error.h"

namespace fp4::cost {

JsonReader::JsonReader(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
  if (!object_.is_object()) fail(fmt::format("expected an object, found {}", object_.type_name()));
}

void JsonReader::fail(const std::string& what) const { throw Error(place_ + ": " + what); }

bool JsonReader::has(std::string_view key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

const Json* JsonReader::find(std::string_view key) {
  asked_.emplace(key);
  return has(key) ? &*object_.find(key) : nullptr;
}

const Json& JsonReader::at(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) fail(fmt::format("missing key '{}'", key));
  return *value;
}

std::string JsonReader::text(std::string_view key) {
  const Json& value = at(key);
  if (!value.is_string()) fail(fmt::format("{}: expected text, found {}", key, value.type_name()));
  return value.get<std::string>();
}

double JsonReader::number(std::string_view key, double low, double high) {
  return checked_number(at(key), fmt::format("{}: {}", place_, key), low, high);
}

int64_t JsonReader::integer(std::string_view key, int64_t low, int64_t high) {
  const double value = number(key, static_cast<double>(low), static_cast<double>(high));
  if (value != std::floor(value)) fail(fmt::format("{}: expected a whole number, found {}", key, value));
  return static_cast<int64_t>(value);
}

bool JsonReader::boolean(std::string_view key, bool absent) {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) fail(fmt::format("{}: expected true or false, found {}", key, value->type_name()));
  return value->get<bool>();
}

void JsonReader::finish() const {
  for (const auto& [key, value] : object_.items())
    if (!asked_.contains(key)) throw unknown_word(place_, key, {asked_.begin(), asked_.end()});
}

double checked_number(const Json& value, const std::string& what, double low, double high) {
  if (!value.is_number()) throw Error(fmt::format("{}: expected a number, found {}", what, value.type_name()));
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < low || number > high)
    throw Error(high == std::numeric_limits<double>::max()
                    ? fmt::format("{}: {} is below the smallest accepted value {}", what, number, low)
                    : fmt::format("{}: {} is outside the accepted range {} to {}", what, number, low, high));
  return number;
}

std::vector<std::string> builtin_names(std::string_view folder) {
  std::vector<std::string> names;
  for (const std::string_view path : embedded_names(folder)) {
    const size_t start = folder.size() + 1;
    names.emplace_back(path.substr(start, path.size() - start - std::string_view(".json").size()));
  }
  return names;
}

Json load_json(std::string_view word, std::string_view folder, std::string_view kind) {
  std::string text;
  if (word.ends_with(".json")) {
    std::ifstream file{std::string(word), std::ios::binary};
    if (!file) throw Error(fmt::format("{} {}: cannot be read", kind, word));
    std::ostringstream content;
    content << file.rdbuf();
    text = content.str();
  } else {
    const std::vector<std::string> names = builtin_names(folder);
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      std::vector<std::string> accepted = names;
      accepted.emplace_back("PATH.json");
      throw unknown_word(kind, word, accepted);
    }
    text = embedded(fmt::format("{}/{}.json", folder, word));
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& problem) {
    throw Error(fmt::format("{} {}: not JSON: {}", kind, word, problem.what()));
  }
}

}  // namespace fp4::cost
