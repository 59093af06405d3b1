// A field of a section whose words are the rows of an axis table.
#pragma once

#include "fp4/axis.h"
#include "src/text/json_reader.h"

namespace fp4::sim {

// Sets `id` to the row that the field names; where the field is absent it stays. `doc` says what the field is.
template <class Table, class Id>
void read_row(JsonReader& given, const char* key, const char* doc, const Table& table, Id& id) {
  if (const auto word = given.find(key, {doc, row_of(table, id).name})) id = word->row(table).id;
}

}  // namespace fp4::sim
