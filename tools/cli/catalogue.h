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

// Kinds in which `show` looks, in this order, and the JSON of a name. An empty kind means all of them; Error for a name
// that none has.
std::vector<std::string> catalogue_kinds();
std::vector<std::string> catalogue_kinds_of(std::string_view name);  // those that have this name, in this order
nlohmann::ordered_json catalogue_show(std::string_view name, std::string_view kind);
// What one would copy to start a file of one's own: a recipe, grid or model as its file says it, a chip without the
// sources of its numbers, a preset and an accumulator without what is at its default.
nlohmann::ordered_json catalogue_short(std::string_view name, std::string_view kind);
std::vector<std::string> catalogue_show_names();

}  // namespace fp4::tools
