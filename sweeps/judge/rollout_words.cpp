// In which words two recipes' forward passes differ, and one recipe with a word of the other; see rollout.h.
#include <algorithm>
#include <string_view>

#include "sim/rules/attention_rules.h"
#include "sim/rules/calls.h"
#include "src/text/words.h"
#include "sweeps/judge/rollout.h"

namespace fp4::sweeps {

namespace {

// What describes a recipe, and what only a training step reads.
constexpr std::string_view unread_words[] = {"name",  "doc",          "source",    "deviations", "dgrad",
                                             "wgrad", "loss_scaling", "optimizer", "weights"};
// Values that stand for one thing, whatever they consist of.
constexpr std::string_view whole_values[] = {"element", "accumulator", "layers", "phases", "estimator"};

// Sections that canonical recipes leave out at their defaults stand in full, so that their fields are words.
Json filled(Json recipe) {
  if (!recipe.contains("calls")) recipe["calls"] = sim::calls_to({});
  if (!recipe.contains("attn")) recipe["attn"] = sim::attention_rules_to({});
  return recipe;
}

struct WordChange {
  std::string path;
  Json against, recipe;
};

void collect_words(const std::string& path, const Json& against, const Json& recipe, std::vector<WordChange>& out) {
  const std::string_view last = std::string_view(path).substr(path.rfind('.') + 1);
  if (against == recipe) return;
  if (!against.is_object() || !recipe.is_object() || contains(whole_values, last)) {
    out.push_back({path, against, recipe});
    return;
  }
  Json keys = against;
  keys.update(recipe);
  for (const auto& [key, value] : keys.items()) {
    if (path.empty() && contains(unread_words, key)) continue;
    const auto of = [&name = key](const Json& object) { return object.value(name, Json()); };
    collect_words(path.empty() ? key : path + "." + key, of(against), of(recipe), out);
  }
}

struct Meaning {
  std::string_view end, meaning;
};
constexpr Meaning meanings[] = {
    {".accumulator", "adder"},         {".decode", "decode order"},
    {"calls.split_k", "split K"},      {"calls.rows", "tokens a call"},
    {"calls.split_rows", "batch"},     {".hadamard.size", "rotation"},
    {".tensor_scale", "tensor scale"}, {".scale", "scale format"},
    {".element", "element"},           {".scale_rule", "scale rule"},
    {".arithmetic", "arithmetic"},     {".rounding", "rounding"},
    {"attn.tile", "softmax tile"},     {"attn.keys", "cache"},
    {"attn.values", "cache"},          {"layers", "layers"},
};

std::string meaning_of(const std::string& word) {
  for (const Meaning& m : meanings)
    if (word.ends_with(m.end)) return std::string(m.meaning);
  return word.starts_with("attn.kv.") ? "cache" : "";
}

void put_value(Json& object, const std::string& path, const Json& value) {
  const size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  if (dot != std::string::npos) return put_value(object[key], path.substr(dot + 1), value);
  if (value.is_null())
    object.erase(key);
  else
    object[key] = value;
}

}  // namespace

std::vector<Turn> different_words(const Json& against, const Json& recipe) {
  std::vector<WordChange> all;
  collect_words("", filled(against), filled(recipe), all);
  std::vector<Turn> turns;
  for (WordChange& d : all) {
    constexpr std::string_view a = "fprop.a.", b = "fprop.b.";
    if (d.path.starts_with(b)) {
      const std::string field = d.path.substr(b.size());
      const auto twin = std::find_if(turns.begin(), turns.end(), [&](const Turn& t) {
        return t.word == std::string(a) + field && t.against == d.against && t.recipe == d.recipe;
      });
      if (twin != turns.end()) {
        twin->word = "fprop.*." + field;
        continue;
      }
    }
    turns.push_back({d.path, meaning_of(d.path), std::move(d.against), std::move(d.recipe), {}, {}, ""});
  }
  return turns;
}

Json with_word(Json recipe, const std::string& word, const Json& value) {
  recipe = filled(std::move(recipe));
  if (constexpr std::string_view both = "fprop.*."; word.starts_with(both)) {
    for (const char* operand : {"fprop.a.", "fprop.b."}) put_value(recipe, operand + word.substr(both.size()), value);
    return recipe;
  }
  put_value(recipe, word, value);
  return recipe;
}

}  // namespace fp4::sweeps
