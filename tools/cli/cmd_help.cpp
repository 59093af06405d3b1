// `fp4sim help`: a command, a field of one of our files, all fields of a kind of file, or a word of `fp4sim list`; the
// JSON Schema of a kind and the pages of the reference.
#include <fmt/core.h>

#include <algorithm>
#include <regex>

#include "src/text/embedded.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "tools/cli/catalogue.h"
#include "tools/cli/glossary.h"
#include "tools/cli/options.h"
#include "tools/cli/reference.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct HelpOptions {
  std::vector<std::string> words;
  std::string schema, page;
  bool json = false;
};

// Rows of several places that say the same.
struct Found {
  const FieldNotes* notes;
  std::vector<std::string> places;  // "recipe: operand.rounding"
};

bool names(const std::string& path, const std::string& field) {
  return path == field ||
         (path.size() > field.size() && path.ends_with(field) && path[path.size() - field.size() - 1] == '.');
}

std::vector<Found> find_fields(const std::string& word) {
  std::vector<Found> found;
  for (const ReferenceKind& kind : reference_kinds()) {
    for (const ReferenceSection& section : reference_sections(kind)) {
      for (const ReferenceRow& row : section.rows) {
        const std::string place = section.name == kind.name ? row.path : section.name + "." + row.path;
        if (!names(lower_case(kind.name + "." + place), lower_case(word))) continue;
        const auto same = [&](const Found& other) {
          return other.notes->doc == row.notes->doc && value_text(*other.notes) == value_text(*row.notes) &&
                 default_text(*other.notes) == default_text(*row.notes);
        };
        auto known = std::find_if(found.begin(), found.end(), same);
        if (known == found.end()) known = found.insert(known, {row.notes, {}});
        known->places.push_back(kind.name + ": " + place);
      }
    }
  }
  return found;
}

Table word_table(const std::vector<FieldNotes::Word>& words) {
  Table table = {{"word", "meaning"}, {}};
  const auto has_source = [](const FieldNotes::Word& word) { return !word.source.empty(); };
  if (std::any_of(words.begin(), words.end(), has_source)) table.columns.push_back({"source"});
  for (const FieldNotes::Word& word : words) table.rows.push_back({word.name, word.doc, word.source});
  return table;
}

void print_found(const Found& found) {
  const FieldNotes& notes = *found.notes;
  std::vector<std::pair<std::string, std::string>> lines = {{"in", joined(found.places)}, {"value", value_text(notes)}};
  if (const std::string text = default_text(notes); !text.empty()) lines.emplace_back("default", text);
  for (const auto& [task, value] : notes.fallbacks) lines.emplace_back("  " + task, value.dump());
  print_wrapped(notes.doc);
  fmt::print("\n");
  print_fields(lines);
  if (const auto& words = explained_words(notes); !words.empty()) {
    fmt::print("\n");
    print_table(word_table(words));
  }
}

// As much of a list of words as a table has room for; `fp4sim help FIELD` has all.
std::string short_list(const std::string& text) {
  constexpr size_t most = 60;
  if (text.size() <= most) return text;
  const size_t end = text.rfind(", ", most);
  return text.substr(0, end == std::string::npos ? most : end) + ", ..";
}

void print_kind(const ReferenceKind& kind) {
  print_wrapped(kind.title + ": " + kind.doc);
  for (const ReferenceSection& section : reference_sections(kind)) {
    Table table = {{section.name, "value", "meaning"}, {}};
    for (const ReferenceRow& row : section.rows) {
      const std::string usual = short_list(default_text(*row.notes));
      const std::string value = short_list(value_text(*row.notes));
      table.rows.push_back({row.path,
                            usual.empty()         ? value
                            : usual == "required" ? value + "; required"
                                                  : value + "; default " + usual,
                            row.notes->doc});
    }
    fmt::print("\n");
    print_table(table);
  }
}

nlohmann::ordered_json row_json(const Found& found) {
  const FieldNotes& notes = *found.notes;
  nlohmann::ordered_json out = {{"doc", notes.doc},
                                {"places", found.places},
                                {"value", value_text(notes)},
                                {"default", notes.fallback},
                                {"required", notes.is_required}};
  out["words"] = nlohmann::ordered_json::array();
  for (const FieldNotes::Word& word : explained_words(notes))
    out["words"].push_back({{"name", word.name}, {"doc", word.doc}, {"source", word.source}});
  return out;
}

// A word of `fp4sim list`, spelt as there on return: what it means on each axis that has it.
Table catalogue_table(std::string& word) {
  Table table = {{"in", "meaning", "source"}, {}};
  const std::string wanted = lower_case(word);
  for (const std::string& topic : catalogue_topics())
    for (const CatalogueRow& row : catalogue_rows(topic))
      if (lower_case(row.name) == wanted) table.rows.push_back({topic, row.doc, row.source}), word = row.name;
  return table;
}

// The number of 2509.25149 or arXiv:2509.25149, "" for other words.
std::string paper_number(const std::string& word) {
  static const std::regex form("(?:arxiv:)?([0-9]{4}[.][0-9]{5})", std::regex::icase);
  std::smatch match;
  return std::regex_match(word, match, form) ? match[1].str() : "";
}

// What names a paper as its source: words of `fp4sim list`, then files of the program whose words are not listed.
Table paper_table(const std::string& number) {
  Table table = {{"in", "meaning", "source"}, {}};
  const auto has = [&](std::string_view text) { return text.find(number) != std::string_view::npos; };
  for (const std::string& topic : catalogue_topics())
    for (const CatalogueRow& row : catalogue_rows(topic))
      if (has(row.source) || has(row.doc)) table.rows.push_back({topic + ": " + row.name, row.doc, row.source});
  for (const std::string_view path : embedded_names(""))
    if (table.rows.empty() && has(embedded(path)))
      table.rows.push_back({std::string(path), "names it", "https://arxiv.org/abs/" + number});
  return table;
}

void print_entry(const GlossaryEntry& entry) {
  print_wrapped(entry.word + ": " + entry.text);
  if (!entry.also.empty()) print_wrapped("Also: " + joined(entry.also));
}

// Words are hundreds: the message names the nearest one, and where all of them stand.
[[noreturn]] void refuse(const CLI::App& root, const std::string& word) {
  std::vector<std::string> known = reference_words(), commands;
  for (const CLI::App* sub : root.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(sub->get_name());
  known.insert(known.end(), commands.begin(), commands.end());
  for (const std::string& topic : catalogue_topics())
    for (const CatalogueRow& row : catalogue_rows(topic)) known.push_back(row.name);
  for (const GlossaryEntry& entry : glossary()) {
    known.push_back(entry.word);
    known.insert(known.end(), entry.also.begin(), entry.also.end());
  }
  const std::string nearest = nearest_word(word, known);
  throw Error(
      fmt::format("help: unknown word '{}'{} accepted: a command ({}), a kind of file ({}), a field of one, a word of "
                  "`fp4sim list`, or a word of tables and papers",
                  word, nearest.empty() ? ";" : "; did you mean '" + nearest + "'?", joined(commands),
                  joined(names_of(reference_kinds()))));
}

void print_overview(const CLI::App& root) {
  // root.help() would be that of `help`, the subcommand that was given.
  fmt::print("{}\n", root.get_formatter()->make_help(&root, "fp4sim", CLI::AppFormatMode::Normal));
  print_wrapped(
      "`fp4sim help KIND` lists the fields of a kind of file: " + joined(names_of(reference_kinds())) +
      ". `fp4sim help WORD` explains a field, a word of `fp4sim list`, or one that tables and papers use (tied, RHT).");
}

void print_schema(const std::string& word) {
  std::vector<std::string> files;
  for (const ReferenceKind& kind : reference_kinds())
    if (kind.is_file) files.push_back(kind.name);
  accepted_index("help --schema", word, files);
  print_json(reference_schema(*find_kind(word)));
}

void run_help(const CLI::App& root, const HelpOptions& o) {
  if (!o.schema.empty()) return print_schema(o.schema);
  if (!o.page.empty()) {
    fmt::print("{}", reference_page(o.page));
    return;
  }
  const CLI::App* app = &root;
  std::string path;
  for (const std::string& word : o.words) {
    const auto subs = app->get_subcommands([&](const CLI::App* sub) { return sub->check_name(word); });
    if (subs.empty()) {
      app = &root;
      break;
    }
    add_word(path, app->get_name(), " ");
    app = subs[0];
  }
  if (o.words.empty()) return print_overview(root);
  std::string word = o.words.back();
  std::vector<Found> found = o.words.size() == 1 ? find_fields(word) : std::vector<Found>();
  // A path as files and messages write it, wgrad.*.rounding or tune.train.lr.rungs: the field at its end.
  std::string end = o.words.size() == 1 ? word : "";
  for (size_t dot; found.empty() && (dot = end.find('.')) != std::string::npos;)
    found = find_fields(end = end.substr(dot + 1));
  const ReferenceKind* kind = o.words.size() == 1 ? find_kind(word) : nullptr;
  const std::string paper = paper_number(word);
  const Table listed = o.words.size() > 1 ? Table() : paper.empty() ? catalogue_table(word) : paper_table(paper);
  const std::string phrase = joined(o.words, " ");
  const GlossaryEntry* entry = glossary_entry(phrase);
  if (app == &root && kind == nullptr && found.empty() && listed.rows.empty() && entry == nullptr)
    refuse(root, app == &root && o.words.size() > 1 ? phrase : word);
  if (o.json) {
    auto rows = nlohmann::ordered_json::array(), meanings = nlohmann::ordered_json::array();
    for (const Found& field : found) rows.push_back(row_json(field));
    for (const auto& row : listed.rows) meanings.push_back({{"in", row[0]}, {"doc", row[1]}, {"source", row[2]}});
    nlohmann::ordered_json out = {{"rows", rows}, {"meanings", meanings}};
    if (entry != nullptr) out["word"] = {{"name", entry->word}, {"also", entry->also}, {"doc", entry->text}};
    return print_json(out);
  }
  bool is_first = true;
  const auto gap = [&] {
    if (!is_first) fmt::print("\n");
    is_first = false;
  };
  if (entry != nullptr) gap(), print_entry(*entry);
  if (app != &root) gap(), fmt::print("{}", app->help(path));
  if (kind != nullptr) gap(), print_kind(*kind);
  for (const Found& field : found) gap(), print_found(field);
  if (listed.rows.empty()) return;
  gap();
  print_table(listed);
  for (const std::string& shown : catalogue_kinds_of(word)) fmt::print("fp4sim show {} --kind {}\n", word, shown);
}

}  // namespace

void command_help(CLI::App& app, Invocation&) {
  auto o = std::make_shared<HelpOptions>();
  option(app, "WORD WORD", o->words,
         "A command (`sweep run`), a field (`rounding`, `train.lr`), a kind of file (`recipe`), a word of `fp4sim "
         "list` (`rceil`) or of tables and papers (`tied`, `RHT`)");
  option(app, "--schema recipe|spec|accumulator|grid|hardware|model|weights|service", o->schema,
         "Print the JSON Schema of a kind of file, for editors");
  option(app, "--page FOLDER", o->page, "Print the reference page of a folder");
  add_json_option(app, o->json);
  app.callback([&app, o] { run_help(*app.get_parent(), *o); });
  set_example(app, "fp4sim help rounding");
}

}  // namespace fp4::tools
