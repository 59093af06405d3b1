#include "src/text/field_notes.h"

#include <algorithm>

namespace fp4 {

static FieldNotes& made(std::shared_ptr<FieldNotes>& notes) {
  if (!notes) notes = std::make_shared<FieldNotes>();
  return *notes;
}

FieldNotes& FieldNotes::field(std::string_view key) {
  is_object = true;
  for (Entry& entry : fields)
    if (entry.first == key) return *entry.second;
  return *fields.emplace_back(key, std::make_shared<FieldNotes>()).second;
}

FieldNotes& FieldNotes::item() { return made(items); }

FieldNotes& FieldNotes::other() {
  is_object = true;
  return made(others);
}

const FieldNotes* FieldNotes::find(std::string_view key) const {
  for (const Entry& entry : fields)
    if (entry.first == key) return entry.second.get();
  return nullptr;
}

void FieldNotes::say(const About& about, bool required) {
  is_required = is_required || required;
  if (!doc.empty()) return;  // asked before
  doc = about.doc;
  source = about.source;
  fallback = about.fallback;
}

void FieldNotes::say_number(double smallest, double largest, bool whole) {
  const bool is_new = !is_integer && !is_number;
  low = is_new ? smallest : std::min(low, smallest);
  high = is_new ? largest : std::max(high, largest);
  (whole ? is_integer : is_number) = true;
}

void FieldNotes::say_word(std::string_view name, std::string_view meaning, std::string_view origin) {
  const auto same = [&](const Word& word) { return word.name == name; };
  if (std::none_of(words.begin(), words.end(), same))
    words.push_back({std::string(name), std::string(meaning), std::string(origin)});
}

void FieldNotes::say_form(Json schema) {
  if (std::find(forms.begin(), forms.end(), schema) == forms.end()) forms.push_back(std::move(schema));
}

}  // namespace fp4
