// Duplicate keys and nesting are watched while the library parses, since its tree no longer shows the one and the other
// would end in a stack overflow where a tree is copied or printed.
#include "src/text/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "src/text/byte_source.h"
#include "src/text/embedded.h"

namespace fp4 {

namespace {

constexpr size_t deepest = 64;  // the deepest shipped file has 7 levels
constexpr uintmax_t largest_file = uintmax_t{64} << 20;

// ".key" or "[3]" as paths write them; a key that is no plain word is quoted and cut: ["a b"].
std::string step_of(const std::string& key) {
  const bool plain = !key.empty() && key.size() <= 60 &&
                     key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+*|.@/") ==
                         std::string::npos;
  return plain ? "." + key : "[" + shown(key) + "]";
}

std::string joined(const std::string& place, bool is_root, const std::string& step) {
  return place + (is_root ? ": " + step.substr(step[0] == '.' ? 1 : 0) : step);
}

// The text of a library error without its "[json.exception.parse_error.101] ".
std::string reason_of(const std::exception& problem) {
  std::string text = problem.what();
  if (const size_t end = text.find("] "); text.starts_with("[json") && end != std::string::npos) text.erase(0, end + 2);
  if (text.size() > 200) text = text.substr(0, 200) + "...";
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
  return text;
}

// Follows the lexer through a document, before its tree is made: the library's parser with a callback looks at all of a
// list again behind each of its objects.
template <class J>
class Watcher final : public nlohmann::json_sax<J> {
 public:
  explicit Watcher(const std::string& place) : place_(place) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(typename J::number_integer_t) override { return value(); }
  bool number_unsigned(typename J::number_unsigned_t) override { return value(); }
  bool number_float(typename J::number_float_t, const typename J::string_t&) override { return value(); }
  bool string(typename J::string_t&) override { return value(); }
  bool binary(typename J::binary_t&) override { return value(); }
  bool start_object(size_t) override { return start(false); }
  bool start_array(size_t) override { return start(true); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(typename J::string_t& text) override {
    Level& level = levels_.back();
    level.key = text;
    if (!level.keys.insert(level.key).second) throw Error(path() + ": the key stands twice");
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& problem) override {
    if (dynamic_cast<const typename J::parse_error*>(&problem) != nullptr)
      throw Error(fmt::format("{}: not JSON: {}", place_, reason_of(problem)));
    throw Error(fmt::format("{}: {}", path(), reason_of(problem)));  // 1e999
  }

  std::string path() const {
    std::string place = place_;
    for (size_t i = 0; i < levels_.size(); ++i) {
      const Level& level = levels_[i];
      if (!level.is_list && level.key.empty()) break;
      place = joined(place, i == 0, level.is_list ? fmt::format("[{}]", level.index) : step_of(level.key));
    }
    return place;
  }

 private:
  bool value() {
    if (!levels_.empty()) ++levels_.back().index;
    return true;
  }
  bool start(bool is_list) {
    if (levels_.size() == deepest) throw Error(fmt::format("{}: nested deeper than {} levels", path(), deepest));
    levels_.push_back({.is_list = is_list, .index = 0, .key = {}, .keys = {}});
    return true;
  }
  bool end() {
    levels_.pop_back();
    return value();
  }
  struct Level {
    bool is_list;
    size_t index;
    std::string key;
    std::set<std::string> keys;
  };
  const std::string& place_;
  std::vector<Level> levels_;
};

// 2^40 and 2^63 - 1 rather than nineteen digits.
std::string limit_text(double limit) {
  int exponent = 0;
  if (limit >= 0x1p31 && std::frexp(limit, &exponent) == 0.5)
    return fmt::format("2^{}{}", exponent - 1, exponent == 64 ? " - 1" : "");  // the largest int64_t, rounded
  return fmt::format("{}", limit);
}

}  // namespace

template <class J>
J parse_json(std::string_view text, const std::string& place) {
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)  // the library would end there
    throw Error(fmt::format("{}: not JSON: byte {} is zero", place, zero));
  Watcher<J> watcher(place);
  J::sax_parse(text, &watcher);
  return J::parse(text);
}
template Json parse_json(std::string_view, const std::string&);
template nlohmann::ordered_json parse_json(std::string_view, const std::string&);

NamedText read_text_file(const std::string& path, std::string_view kind) {
  NamedText file{.text = {}, .place = fmt::format("{} {}", kind, path)};
  std::error_code problem;
  const std::filesystem::file_status status = std::filesystem::status(path, problem);
  if (!std::filesystem::exists(status)) throw Error(file.place + ": cannot be read: there is no such file");
  if (!std::filesystem::is_regular_file(status)) throw Error(file.place + ": cannot be read: it is not a regular file");
  if (std::filesystem::file_size(path, problem) > largest_file)
    throw Error(file.place + ": cannot be read: it is larger than 64 MB");
  file.text = at_place(std::string(kind), [&] { return read_file(path, largest_file); });
  return file;
}

NamedText open_named_json(std::string_view word, std::string_view folder, std::string_view kind,
                          std::string_view place) {
  if (word.ends_with(".json")) return read_text_file(std::string(word), kind);
  std::vector<std::string> names = named_json(folder);
  const auto is_word = [&](const std::string& name) {  // H100 is h100
    return std::equal(name.begin(), name.end(), word.begin(), word.end(),
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  const auto found = std::find_if(names.begin(), names.end(), is_word);
  if (found != names.end())
    return {std::string(embedded(fmt::format("{}/{}.json", folder, *found))), fmt::format("{} {}", kind, *found)};
  names.emplace_back("PATH.json");
  throw unknown_word(place.empty() ? kind : place, word, names);
}

std::vector<std::string> named_json(std::string_view folder) {
  std::vector<std::string> names;
  for (std::string_view path : embedded_names(folder)) {
    if (!path.ends_with(".json")) continue;
    path.remove_prefix(folder.size() + 1);
    names.emplace_back(path.substr(0, path.size() - std::string_view(".json").size()));
  }
  return names;
}

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr size_t longest = 60;
  if (text.size() <= longest) return text;
  size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a UTF-8 character
  return text.substr(0, end) + "...";
}

std::string range_text(double low, double high) {
  const bool has_high = high < huge;
  if (low == tiny) return "above 0" + (has_high ? ", up to " + limit_text(high) : "");
  if (low > -huge) return "from " + limit_text(low) + (has_high ? " to " + limit_text(high) : "");
  return has_high ? "up to " + limit_text(high) : "any finite number";
}

void JsonReader::fail(const std::string& what) const { throw Error(place_ + ": " + what); }

std::string JsonReader::text() const {
  if (notes_ != nullptr) notes_->is_text = true;
  if (!json().is_string()) fail("expected text, found " + shown(json()));
  return json().get<std::string>();
}

bool JsonReader::boolean() const {
  if (notes_ != nullptr) notes_->is_boolean = true;
  if (!json().is_boolean()) fail("expected true or false, found " + shown(json()));
  return json().get<bool>();
}

double JsonReader::number(double low, double high) const {
  if (notes_ != nullptr) notes_->say_number(low, high, false);
  if (!json().is_number()) fail("expected a number, found " + shown(json()));
  const double number = json().get<double>();
  if (!std::isfinite(number) || number < low || number > high)
    fail(fmt::format("{} is out of range; accepted: {}", shown(json()), range_text(low, high)));
  return number;
}

std::optional<double> JsonReader::if_number(double low, double high) const {
  if (notes_ != nullptr) notes_->say_number(low, high, false);
  return json().is_number() ? std::optional(number(low, high)) : std::nullopt;
}

std::string JsonReader::name_in(std::string_view folder) const {
  if (notes_ != nullptr) note_words(named_json(folder));
  return text();
}

void JsonReader::note_words(const std::vector<std::string>& words) const {
  if (notes_ == nullptr) return;
  for (const std::string& word : words) notes_->say_word(word);
}

void JsonReader::note_form(const char* schema) const {
  if (notes_ != nullptr) notes_->say_form(Json::parse(schema));
}

void JsonReader::note_keys(const std::vector<std::string>& keys) const {
  if (notes_ != nullptr) notes_->keys = keys;
}

void JsonReader::note_type(const char* name) const {
  if (notes_ != nullptr) notes_->type = name;
}

int64_t JsonReader::integer(int64_t low, int64_t high) const {
  if (notes_ != nullptr) notes_->say_number(static_cast<double>(low), static_cast<double>(high), true);
  const Json& v = json();
  const bool whole = v.is_number_integer() || (v.is_number_float() && v.get<double>() == std::floor(v.get<double>()));
  if (!whole) fail("expected a whole number, found " + shown(v));
  // Outside of int64 the conversion would wrap round.
  const bool fits = v.is_number_unsigned() ? v.get<uint64_t>() <= uint64_t{INT64_MAX}
                    : v.is_number_float()  ? std::fabs(v.get<double>()) < 0x1p63
                                           : true;
  const int64_t number = fits ? v.get<int64_t>() : 0;
  if (!fits || number < low || number > high)
    fail(fmt::format("{} is out of range; accepted: {}", shown(v),
                     range_text(static_cast<double>(low), static_cast<double>(high))));
  return number;
}

size_t JsonReader::word(const std::vector<std::string>& accepted) const {
  note_words(accepted);
  if (!json().is_string()) throw unknown_word(place_, shown(json()), accepted);
  return accepted_index(place_, json().get_ref<const std::string&>(), accepted);
}

std::vector<JsonReader> JsonReader::list(size_t least) const {
  FieldNotes* item = notes_ != nullptr ? &notes_->item() : nullptr;
  if (notes_ != nullptr) notes_->least = least;
  if (!json().is_array()) fail("expected a list, found " + shown(json()));
  if (json().size() < least) fail(fmt::format("expected a list of at least {}, found {}", least, shown(json())));
  std::vector<JsonReader> items;
  for (size_t i = 0; i < json().size(); ++i) items.push_back(child(fmt::format("[{}]", i), json()[i], item));
  return items;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::entries(const char* name, const About& about) const {
  std::vector<std::pair<std::string, JsonReader>> entries;
  for (const auto& [key, value] : object().items())
    if (!is_schema(key)) entries.emplace_back(key, child(step_of(key), value, note_other(name, about)));
  return entries;
}

std::optional<JsonReader> JsonReader::entry(std::string_view key, const char* name, const About& about) const {
  FieldNotes* other = note_other(name, about);
  const auto found = object().find(key);
  if (found == json().end() || found->is_null()) return std::nullopt;
  return child(step_of(std::string(key)), *found, other);
}

FieldNotes* JsonReader::note_other(const char* name, const About& about) const {
  if (notes_ == nullptr) return nullptr;
  notes_->others_name = name;
  notes_->other().say(about, /*required=*/false);
  return notes_->others.get();
}

JsonReader JsonReader::at(std::string_view key, const About& about) {
  if (notes_ != nullptr) notes_->field(key).say(about, /*required=*/true);
  std::optional<JsonReader> value = find(key, about);
  if (!value) fail(fmt::format("missing key '{}'", key));
  return *std::move(value);
}

std::optional<JsonReader> JsonReader::find(std::string_view key, const About& about) {
  asked_.emplace(key);
  FieldNotes* field = notes_ != nullptr ? &notes_->field(key) : nullptr;
  if (field != nullptr) field->say(about, /*required=*/false);
  const auto found = object().find(key);
  if (found == json().end() || found->is_null()) return std::nullopt;
  return child(step_of(std::string(key)), *found, field);
}

void JsonReader::finish() const {
  for (const auto& [key, value] : object().items())
    if (!asked_.contains(key) && !is_schema(key)) throw unknown_word(place_, key, {asked_.begin(), asked_.end()});
}

const Json& JsonReader::object() const {
  if (!json().is_object()) fail("expected an object, found " + shown(json()));
  return json();
}

JsonReader JsonReader::child(const std::string& step, const Json& value, FieldNotes* notes) const {
  JsonReader reader(value, joined(place_, is_root_, step), notes);
  reader.is_root_ = false;
  return reader;
}

}  // namespace fp4
