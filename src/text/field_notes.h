// What readers of JSON files know of their fields, written down while they read (src/text/json_reader.h): one entry a
// field with its meaning, type, range and words. `fp4sim help`, the pages README.md of sweeps/ and tasks/ and the JSON
// Schemas are made from it, so that a fact stands where the field is read and nowhere else.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fp4 {

using Json = nlohmann::json;  // objects keep their keys sorted

// What a reader says of a field when it asks for it.
struct About {
  std::string_view doc = {};
  Json fallback = nullptr;  // what counts where the field is absent; null: nothing
  std::string_view source = {};
};

struct FieldNotes {
  struct Word {
    std::string name, doc, source;
  };
  using Entry = std::pair<std::string, std::shared_ptr<FieldNotes>>;

  std::string doc, source;
  Json fallback;
  std::vector<std::pair<std::string, Json>> fallbacks;  // by task, where they differ from `fallback`
  bool is_required = false;
  // Forms of the value; several may be accepted.
  bool is_text = false, is_boolean = false, is_integer = false, is_number = false, is_object = false;
  double low = 0, high = 0;  // of numbers
  std::vector<Word> words;   // with is_text other texts are accepted, too
  std::vector<Json> forms;   // what the other members cannot say, as JSON Schemas
  std::string type;          // of an object that stands in several places ("operand")
  std::vector<Entry> fields;
  std::shared_ptr<FieldNotes> others;  // entries of an object whose keys are free,
  std::string others_name;             // what stands for such a key ("FORMAT"),
  std::vector<std::string> keys;       // and the known ones, if others are refused
  std::shared_ptr<FieldNotes> items;   // entries of a list of at least `least`
  size_t least = 0;

  // The entry of a key, made when it is new.
  FieldNotes& field(std::string_view key);
  FieldNotes& item();
  FieldNotes& other();
  const FieldNotes* find(std::string_view key) const;

  void say(const About& about, bool required);
  // A range met twice becomes the wider one.
  void say_number(double smallest, double largest, bool whole);
  void say_word(std::string_view name, std::string_view meaning = {}, std::string_view origin = {});
  void say_form(Json schema);
};

}  // namespace fp4
