// Decides: how settings are described, checked and named. One row per field (path, default, doc, accepted
// words or range) serves JSON input, canonical output, the command line and the documentation; a word that no
// row knows is an error. Canonical form: all defaults filled in, keys sorted, numbers in their shortest exact
// text, so that equal settings have equal text and one content hash.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/json_reader.h"

namespace fp4::sim {

using fp4::Json;

struct Field {
  std::string path;    // "steps", "outliers.channel"
  Json default_value;  // its JSON type is the type of the field
  std::string doc;
  std::vector<std::string> words = {};  // accepted words of a text field; empty: any text
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};
using Schema = std::vector<Field>;

/// The object `given` with every field of the schema present and typed. `place` opens error messages
/// ("task classifier"). Throws fp4::Error for unknown fields, wrong types, words and ranges.
Json canonical(const Schema& schema, const Json& given, const std::string& place);

/// The same rows with other defaults: {"steps": 600} replaces the default of `steps`.
Schema with_defaults(Schema schema, const Json& defaults);

/// Reads and writes a dotted path ("outliers.channel") of a nested object; `at_path` gives nullptr when absent.
const Json* at_path(const Json& object, std::string_view path);
void set_path(Json& object, std::string_view path, Json value);

/// Compact text of a canonical value, and the first 16 hex digits of its SHA-256.
std::string canonical_text(const Json& value);
std::string content_hash(const Json& value);

}  // namespace fp4::sim
