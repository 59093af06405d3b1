// What `fp4sim list` and `show` know: the axis tables of the core and the data files that the program carries.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fp4::tools {

struct CatalogueRow {
  std::string name, doc, source;
  std::string evidence = {};  // of what describes a device (evidence.h)
};

// Topics in the order of `fp4sim list`, and the rows of one. Error for an unknown topic.
std::vector<std::string> catalogue_topics();
std::vector<CatalogueRow> catalogue_rows(std::string_view topic);

// Kinds that have a name, in the order in which `show` looks, and the JSON of a name. An empty kind means all of them;
// Error for a name that none has.
std::vector<std::string> catalogue_kinds_of(std::string_view name);
// `brief`: what one would copy to start a file of one's own: a recipe, grid or model as its file says it, a chip
// without the sources of its numbers, a preset and an accumulator without what is at its default.
nlohmann::ordered_json catalogue_show(const std::string& name, std::string_view kind, bool brief = false);
std::vector<std::string> catalogue_show_names();

}  // namespace fp4::tools
