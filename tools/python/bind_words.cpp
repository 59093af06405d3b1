// What the library knows by name: versions, threads, the words of every axis, the fields of a spec.
#include <atomic>

#include "src/arith/element_grids.h"
#include "src/arith/spec_note.h"
#include "src/arith/spec_text.h"
#include "src/backends/signature.h"
#include "src/text/version.h"
#include "src/threads/parallel.h"
#include "tools/cli/catalogue.h"
#include "tools/python/gate.h"

namespace fp4::python {
namespace {

std::atomic<int> default_threads = 0;

// [topic, name, doc, source] of everything that has a name, as `fp4sim list` shows it.
Json catalogue(const Arguments&) {
  Json rows = Json::array();
  for (const std::string& topic : tools::catalogue_topics())
    for (const tools::CatalogueRow& row : tools::catalogue_rows(topic))
      rows.push_back({topic, row.name, row.doc, row.source});
  return rows;
}

// [name, doc, default, accepted words; null for numbers] of the fields of a spec.
Json spec_fields(const Arguments&) {
  Json rows = Json::array();
  for (const auto& field : quant_fields())
    rows.push_back({field.name, field.doc, field.get({}), field.words == nullptr ? Json() : Json(field.words())});
  return rows;
}

fp4::Json element_given(const Arguments& given) { return fp4::Json::parse(given.json("element").dump()); }

// The canonical object of an element, a row's name in {"name": ..}.
Json element(const Arguments& given) {
  const fp4::Json value = element_given(given);
  fp4::Json made = element_json(element_from({value, "element"}));
  if (made.is_string()) made = {{"name", made}};
  return Json::parse(made.dump());
}

Json element_bits(const Arguments& given) {
  const fp4::Json value = element_given(given);
  const FloatFormat& f = format_of(element_from({value, "element"}));
  return f.is_grid() ? f.grid->packed_bits() : f.code_bits();
}

Json set_num_threads(const Arguments& given) {
  default_threads = given.get<int>("threads");
  return {};
}

}  // namespace

int thread_count(int wanted) {
  const int count = wanted > 0 ? wanted : default_threads.load();
  return count > 0 ? count : threads_of_machine();
}

const std::vector<Function>& word_functions() {
  static const std::vector<Function> table = {
      {"version", [](const Arguments&) { return Json(version()); }},
      {"signature", [](const Arguments&) { return Json(arithmetic_signature()); }},
      {"set_num_threads", &set_num_threads},
      {"get_num_threads", [](const Arguments&) { return Json(thread_count(0)); }},
      {"catalogue", &catalogue},
      {"show",
       [](const Arguments& given) { return Json(tools::catalogue_show(given.text("name"), given.text("kind"))); }},
      {"spec_fields", &spec_fields},
      {"element", &element},
      {"element_bits", &element_bits},
      {"spec_note",
       [](const Arguments& given) { return Json(note_of(quant_spec_from_words(given.text("words"), "--spec"))); }},
      {"spec",
       [](const Arguments& given) { return Json(to_json(quant_spec_from_words(given.text("words"), "--spec"))); }},
  };
  return table;
}

}  // namespace fp4::python
