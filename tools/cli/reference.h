// The reference of every field that a file of ours may have, made from what the readers note of themselves
// (src/text/field_notes.h): rows for `fp4sim help` and the pages README.md, and JSON Schemas for editors. A new field
// needs no edit here: its reader says what it means where it asks for it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/field_notes.h"

namespace fp4::tools {

// A kind of file or section: "recipe", "grid", "train", "classifier", ..
struct ReferenceKind {
  std::string name, title, doc;
  FieldNotes notes;
  bool is_file = true;  // has a JSON Schema of its own
};
const std::vector<ReferenceKind>& reference_kinds();

// The kind of this name; null where there is none.
const ReferenceKind* find_kind(std::string_view name);

// Fields of one object, in the order in which they are read.
struct ReferenceRow {
  std::string path;  // "race.seeds", "tune.PATH.factor", "linears[].in"
  const FieldNotes* notes;
};
struct ReferenceSection {
  std::string name;  // "recipe", and the objects in it: "product", "operand"
  std::vector<ReferenceRow> rows;
};
std::vector<ReferenceSection> reference_sections(const ReferenceKind& kind);

// "whole number, from 1 to 64", "list of text", "operand"; "required", "0.001", "".
std::string value_text(const FieldNotes& notes);
std::string default_text(const FieldNotes& notes);
// Words that have a meaning each, of a field or of the entries of a list; none: empty.
const std::vector<FieldNotes::Word>& explained_words(const FieldNotes& notes);

// Fields without a meaning or a type, as "recipe: wgrad.a.target": none in a finished program.
std::vector<std::string> unexplained_fields();

// What `fp4sim help` explains besides commands: kinds and last words of paths, sorted, each once.
std::vector<std::string> reference_words();
// Paths that `train --set` knows, with "=": "lr=", "outliers.token=", "wgrad.a.rounding=".
std::vector<std::string> reference_settings();

// JSON Schema, draft 2020-12; Error for a kind that is no file.
nlohmann::ordered_json reference_schema(const ReferenceKind& kind);
// A page of tables with all fields and words of some kinds.
std::string reference_page(std::string_view topic);
std::vector<std::string> reference_pages();

}  // namespace fp4::tools
