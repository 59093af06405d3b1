// Decides: how a data file of the cost model is read. Strict: every key is asked for by name, what nobody asked for is
// an error, and so are a missing key, a wrong type and a number outside its range; messages name file, key and the
// accepted words. A profile with a misspelt rate would otherwise be a chip that silently costs nothing.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fp4::cost {

using Json = nlohmann::json;  // objects keep their keys sorted

// Ends of ranges: up to any finite number, from any positive one.
inline constexpr double huge = std::numeric_limits<double>::max();
inline constexpr double tiny = std::numeric_limits<double>::min();

/// One object of a file; `place` opens every message ("hardware profile mi355x").
class JsonReader {
 public:
  JsonReader(const Json& object, std::string place);

  bool has(std::string_view key) const;    // present and not null
  const Json& at(std::string_view key);    // required
  const Json* find(std::string_view key);  // optional: nullptr when absent or null
  std::string text(std::string_view key);
  double number(std::string_view key, double low, double high);
  int64_t integer(std::string_view key, int64_t low, int64_t high);
  bool boolean(std::string_view key, bool absent);
  /// Throws when the object has a key that none of the calls above named. To be called last.
  void finish() const;

  [[noreturn]] void fail(const std::string& what) const;
  const std::string& place() const { return place_; }

 private:
  const Json& object_;
  std::string place_;
  std::set<std::string, std::less<>> asked_;
};

/// A number with its range checked; infinite and NaN are refused. `what` names it in the message.
double checked_number(const Json& value, const std::string& what, double low, double high);

/// The text behind a word: the content of a file when the word ends in .json, else the built-in FOLDER/word.json.
/// Throws with the accepted names. `kind` is what the message calls it ("hardware profile").
Json load_json(std::string_view word, std::string_view folder, std::string_view kind);

/// Names of the built-in files of a folder ("hardware": a100, b200, ...).
std::vector<std::string> builtin_names(std::string_view folder);

}  // namespace fp4::cost
