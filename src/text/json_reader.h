// Every JSON text that comes from outside is read through this file: recipes, specs, accumulators, grids, hardware
// profiles, models, weights, manifests and values of --set. Whatever is wrong becomes the one Error, which names the
// file, the path inside it, the offending word and the accepted ones:
//   grid my.json: axes.wgrad.*.rounding[2]: unknown word 'stochstic'; did you mean 'stochastic'? Accepted: ...
// Strict where the standard is not: a key that stands twice, a key that nobody asked for, a number outside its range
// and a value nested deeper than 64 are errors. "$schema" may stand at the top of a file, for editors.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/text/field_notes.h"
#include "src/text/named_rows.h"

namespace fp4 {

// Ends of ranges: up to any finite number, from any positive one.
inline constexpr double huge = std::numeric_limits<double>::max();
inline constexpr double tiny = std::numeric_limits<double>::min();

/// `place` opens every message. J is Json, or nlohmann::ordered_json where the order of keys counts.
template <class J = Json>
J parse_json(std::string_view text, const std::string& place);

/// CBOR (RFC 8949) of somebody else as JSON: what Json::to_cbor writes and nothing else. The library's reader calls
/// itself for each level and for each piece of a text in pieces, so bytes that nest 200,000 deep would overflow the
/// stack; they are looked over first, without recursion (cbor.cpp).
/// Throws Error with exit code 2 that opens with `place`: nested deeper than 64 levels, tags, lengths that are not
/// given, a key that is no text, bytes that are missing or too many.
Json parse_cbor(std::string_view bytes, const std::string& place);

struct NamedText {
  std::string text;
  std::string place;  // "recipe my.json"
};
/// The content of a regular file of at most 64 MB.
NamedText read_text_file(const std::string& path, std::string_view kind);
/// The text behind a word: a file when the word ends in .json, else the program's own FOLDER/word.json; an unknown word
/// is answered with the names there. `kind` is what messages call it ("hardware profile"), `place` where the word
/// stands if it stands in a file.
NamedText open_named_json(std::string_view word, std::string_view folder, std::string_view kind,
                          std::string_view place = "");
/// Names of the program's own files of a folder ("hardware": a100, b200, ...), sorted.
std::vector<std::string> named_json(std::string_view folder);

/// What `work` gives; a place is put in front of its Error.
template <class Work>
auto at_place(const std::string& place, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(place, error);
  }
}

/// A value as messages show it: compact JSON, cut after 60 bytes.
std::string shown(const Json& value);
/// "from 1 to 2^40", "above 0", "up to 1".
std::string range_text(double low, double high);

/// One value of a document and where it stands. Questions that the value cannot answer throw. It refers to the
/// document, which has to outlive it. With `notes` every question is noted there, together with what is said of the
/// field that is asked for.
class JsonReader {
 public:
  JsonReader(const Json& value, std::string place, FieldNotes* notes = nullptr)
      : value_(&value), place_(std::move(place)), notes_(notes) {}
  JsonReader(Json&&, std::string, FieldNotes* = nullptr) = delete;

  const Json& json() const { return *value_; }
  FieldNotes* notes() const { return notes_; }
  const std::string& place() const { return place_; }
  [[noreturn]] void fail(const std::string& what) const;

  std::string text() const;
  bool boolean() const;
  double number(double low = -huge, double high = huge) const;
  int64_t integer(int64_t low, int64_t high) const;  // 128.0 is a whole number too
  /// The number where the value is one; a reader that accepts another form, too, asks for that next.
  std::optional<double> if_number(double low = -huge, double high = huge) const;
  /// Text that may name one of the program's own files of a folder.
  std::string name_in(std::string_view folder) const;
  /// The position of a text in a list of words.
  size_t word(const std::vector<std::string>& accepted) const;
  /// The row that a text names in an axis table (include/fp4).
  template <class Table>
  const auto& row(const Table& table) const {
    note_rows(table);
    const auto* text = json().get_ptr<const std::string*>();
    for (const auto& entry : table)
      if (text != nullptr && *text == entry.name) return entry;
    throw unknown_word(place_, text != nullptr ? *text : shown(json()), names_of(table));
  }

  /// Notes the words of an axis table, for a value that may be something else, too.
  template <class Table>
  void note_rows(const Table& table) const {
    if (notes_ == nullptr) return;
    for (const auto& entry : table) {
      if constexpr (requires { entry.source; })
        notes_->say_word(entry.name, entry.doc, entry.source);
      else
        notes_->say_word(entry.name, entry.doc);
    }
  }
  void note_words(const std::vector<std::string>& words) const;
  void note_form(const char* schema) const;                    // JSON Schema of what a reader takes apart itself
  void note_keys(const std::vector<std::string>& keys) const;  // of an object whose entries are alike
  void note_type(const char* name) const;                      // of an object that stands in several places

  const Json& object() const;  // the value, checked to be one
  std::vector<JsonReader> list(size_t least = 0) const;
  /// All entries of an object whose keys are free; `key` is what stands for them in the reference ("FORMAT").
  std::vector<std::pair<std::string, JsonReader>> entries(const char* key = "NAME", const About& about = {}) const;
  std::optional<JsonReader> entry(std::string_view key, const char* name, const About& about = {}) const;

  /// Entries of an object with known keys; null counts as absent. `finish`, called last, throws for a key that nobody
  /// asked for, with those that somebody did.
  JsonReader at(std::string_view key, const About& about = {});
  std::optional<JsonReader> find(std::string_view key, const About& about = {});
  void finish() const;

 private:
  JsonReader child(const std::string& step, const Json& value, FieldNotes* notes) const;
  FieldNotes* note_other(const char* name, const About& about) const;
  bool is_schema(std::string_view key) const { return is_root_ && key == "$schema"; }

  const Json* value_;
  std::string place_;
  FieldNotes* notes_;
  bool is_root_ = true;  // "grid g.json: axes", but "grid g.json: axes.recipe"
  std::set<std::string, std::less<>> asked_;
};

}  // namespace fp4
