// The reference as rows and as pages of Markdown.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/text/json_reader.h"
#include "src/text/words.h"
#include "tools/cli/reference.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

namespace {

// Where each page lies, what it is called and which kinds it documents.
struct Page {
  const char* path;
  const char* title;
  std::vector<std::string> kinds;
};
const std::vector<Page>& pages() {
  static const std::vector<Page> list = [] {
    std::vector<Page> all = {
        {"sweeps/recipes", "Recipes and specs: every field", {"recipe", "spec"}},
        {"sweeps/grids", "Grids: every field", {"grid"}},
        {"sweeps/hardware", "Chips and weights of the cost model: every field", {"hardware", "weights"}},
        {"sweeps/models", "Models: every field", {"model"}},
        {"sweeps/serve", "Services: every field", {"service"}},
        {"tasks", "Tasks and their training: every field", {"train"}}};
    for (const ReferenceKind& kind : reference_kinds())
      if (!kind.is_file && kind.name != "train") all.back().kinds.push_back(kind.name);
    return all;
  }();
  return list;
}

std::string range_of(const FieldNotes& notes) {
  return notes.low > -huge || notes.high < huge ? ", " + range_text(notes.low, notes.high) : "";
}

void add_rows(const FieldNotes& notes, const std::string& prefix, std::vector<ReferenceRow>& rows,
              std::vector<const FieldNotes*>& types) {
  const auto below = [&](const FieldNotes& field, const std::string& path) {
    if (field.type.empty() || prefix == path)
      add_rows(field, path, rows, types);
    else
      types.push_back(&field);
  };
  for (const auto& [key, field] : notes.fields) {
    const std::string path = prefix + key;
    // axes.train.NAME, axes.task.NAME, tune.train.NAME: the fields of those kinds again
    if (path.starts_with("axes.t") || path.starts_with("tune.t")) continue;
    rows.push_back({path, field.get()});
    if (field->is_object) below(*field, path + ".");
    if (field->items && field->items->is_object) below(*field->items, path + "[].");
  }
  if (!notes.others) return;
  rows.push_back({prefix + notes.others_name, notes.others.get()});
  if (notes.others->is_object) below(*notes.others, prefix + notes.others_name + ".");
}

std::string defaults_cell(const FieldNotes& notes) {
  std::string text = default_text(notes);
  for (const auto& [task, value] : notes.fallbacks) text += fmt::format("; {} {}", task, value.dump());
  return text;
}

}  // namespace

std::vector<ReferenceSection> reference_sections(const ReferenceKind& kind) {
  std::vector<ReferenceSection> sections = {{kind.name, {}}};
  std::vector<const FieldNotes*> types;
  add_rows(kind.notes, "", sections[0].rows, types);
  for (size_t i = 0; i < types.size(); ++i) {
    const FieldNotes& type = *types[i];
    const auto same = [&](const ReferenceSection& section) { return section.name == type.type; };
    if (std::any_of(sections.begin(), sections.end(), same)) continue;
    ReferenceSection section{type.type, {}};
    add_rows(type, "", section.rows, types);
    sections.push_back(std::move(section));
  }
  return sections;
}

std::string value_text(const FieldNotes& notes) {
  std::vector<std::string> forms;
  if (notes.is_integer) forms.push_back("whole number" + range_of(notes));
  if (notes.is_number && !notes.is_integer) forms.push_back("number" + range_of(notes));
  for (const Json& form : notes.forms)
    if (form.contains("enum"))
      forms.push_back(fmt::format("{}", fmt::join(form["enum"].get<std::vector<int>>(), ", ")));
  if (notes.is_boolean) forms.emplace_back("true or false");
  if (!notes.words.empty() && !notes.words[0].doc.empty()) {
    forms.emplace_back("word");
  } else if (!notes.words.empty()) {
    std::string words;
    for (const FieldNotes::Word& word : notes.words) {
      if (word.name.empty()) continue;
      if (notes.is_text && words.size() > 24) {
        words += ", ..";
        break;
      }
      add_word(words, word.name);
    }
    forms.push_back(words);
  }
  if (notes.is_text && notes.words.empty()) forms.emplace_back("text");
  if (notes.items) forms.push_back("list of " + value_text(*notes.items));
  if (notes.is_object) forms.push_back(!notes.type.empty() ? notes.type : "object");
  if (forms.empty()) return "any";
  return joined(forms, "; ");
}

std::string default_text(const FieldNotes& notes) {
  if (notes.is_required) return "required";
  return notes.fallback.is_null()     ? ""
         : notes.fallback == ""       ? "empty"
         : notes.fallback.is_string() ? notes.fallback.get<std::string>()
                                      : notes.fallback.dump();
}

const std::vector<FieldNotes::Word>& explained_words(const FieldNotes& notes) {
  static const std::vector<FieldNotes::Word> none;
  const FieldNotes& holder = notes.items && notes.words.empty() ? *notes.items : notes;
  return holder.words.empty() || holder.words[0].doc.empty() ? none : holder.words;
}

static std::vector<std::string> sorted_once(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

std::vector<std::string> reference_words() {
  std::vector<std::string> words;
  for (const ReferenceKind& kind : reference_kinds()) {
    words.push_back(kind.name);
    for (const ReferenceSection& section : reference_sections(kind))
      for (const ReferenceRow& row : section.rows) words.push_back(row.path.substr(row.path.rfind('.') + 1));
  }
  return sorted_once(std::move(words));
}

std::vector<std::string> reference_settings() {
  std::vector<std::string> paths;
  for (const ReferenceKind& kind : reference_kinds()) {
    if (kind.is_file && kind.name != "recipe") continue;
    const auto& fields = kind.is_file ? kind.notes.find("wgrad")->find("a")->fields : kind.notes.fields;
    if (!kind.is_file) {
      for (const ReferenceSection& section : reference_sections(kind))
        for (const ReferenceRow& row : section.rows)
          if (!row.notes->is_object) paths.push_back(row.path + "=");
      continue;
    }
    for (const char* product : {"fprop", "dgrad", "wgrad"})
      for (const char* operand : {"*", "a", "b"})
        for (const auto& [key, field] : fields) paths.push_back(std::string(product) + "." + operand + "." + key + "=");
  }
  return sorted_once(std::move(paths));
}

std::vector<std::string> reference_pages() {
  std::vector<std::string> paths;
  for (const Page& page : pages()) paths.emplace_back(page.path);
  return paths;
}

std::string reference_page(std::string_view topic) {
  const Page* page = &pages()[accepted_index("help --page", topic, reference_pages())];
  std::string out = fmt::format(
      "# {}\n\nMade by `fp4sim help --page {}` from the rows that read these files; a test keeps it in step. `fp4sim "
      "help FIELD`\nprints one field, `fp4sim help --schema KIND` a JSON Schema for editors.\n",
      page->title, page->path);
  // Lists of words that several fields share stand once, under the first.
  std::vector<std::pair<std::string, const std::vector<FieldNotes::Word>*>> lists;
  const auto same_words = [](const auto& a, const auto& b) {
    return a.size() == b.size() && a[0].name == b[0].name && a.back().name == b.back().name;
  };
  for (const std::string& name : page->kinds) {
    const ReferenceKind* kind = find_kind(name);
    out += fmt::format("\n## Fields of {}\n\n{}.\n", kind->title, kind->doc);
    for (const ReferenceSection& section : reference_sections(*kind)) {
      if (section.name != kind->name) out += fmt::format("\n### {}\n", section.name);
      Table table = {{"field", "value", "default", "meaning"}, {}};
      for (const ReferenceRow& row : section.rows) {
        std::string value = value_text(*row.notes);
        if (const auto& words = explained_words(*row.notes); !words.empty()) {
          const auto known = std::find_if(lists.begin(), lists.end(),
                                          [&](const auto& list) { return same_words(*list.second, words); });
          const std::string field = row.path.substr(row.path.rfind('.') + 1);
          const std::string owner = known == lists.end() ? field : known->first;
          if (known == lists.end()) lists.emplace_back(field, &words);
          value.replace(value.find("word"), 4, fmt::format("[word](#words-of-{})", owner));
        }
        table.rows.push_back({"`" + row.path + "`", value, defaults_cell(*row.notes), row.notes->doc});
      }
      out += "\n" + markdown_table(table);
    }
  }
  for (const auto& [field, words] : lists) {
    Table table = {{"word", "meaning", "source"}, {}};
    for (const FieldNotes::Word& word : *words) table.rows.push_back({"`" + word.name + "`", word.doc, word.source});
    out += fmt::format("\n### Words of {}\n\n{}", field, markdown_table(table));
  }
  return out;
}

}  // namespace fp4::tools
