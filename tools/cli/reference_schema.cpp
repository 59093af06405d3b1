// JSON Schemas (draft 2020-12). An object that stands in several places becomes a definition; where an editor could
// complete, keys and words are listed even if others are accepted.

#include "src/text/json_reader.h"
#include "tools/cli/reference.h"

namespace fp4::tools {

namespace {

using nlohmann::ordered_json;

class Writer {
 public:
  ordered_json schema(const FieldNotes& notes) {
    ordered_json forms = ordered_json::array();
    if (notes.is_number || notes.is_integer) forms.push_back(number(notes));
    if (notes.is_boolean) forms.push_back({{"type", "boolean"}});
    if (!notes.words.empty()) forms.push_back(words(notes.words));
    if (notes.is_text) forms.push_back({{"type", "string"}});
    if (notes.items) {
      ordered_json list = {{"type", "array"}, {"items", schema(*notes.items)}};
      if (notes.least > 0) list["minItems"] = notes.least;
      forms.push_back(list);
    }
    if (notes.is_object) forms.push_back(object(notes));
    for (const Json& form : notes.forms) forms.emplace_back(form);
    ordered_json out = ordered_json::object();
    if (!notes.doc.empty()) out["description"] = notes.doc;
    if (!notes.fallback.is_null()) out["default"] = notes.fallback;
    if (forms.size() == 1)
      out.update(forms[0]);
    else if (!forms.empty())
      out["anyOf"] = forms;
    return out;
  }

  ordered_json definitions() const { return definitions_; }

 private:
  static ordered_json number(const FieldNotes& notes) {
    ordered_json out = {{"type", notes.is_number ? "number" : "integer"}};
    if (notes.low == tiny)
      out["exclusiveMinimum"] = 0;
    else if (notes.low > -huge)
      out["minimum"] = notes.low;
    if (notes.high < huge) out["maximum"] = notes.high;
    return out;
  }

  static ordered_json words(const std::vector<FieldNotes::Word>& words) {
    ordered_json names = ordered_json::array(), docs = ordered_json::array();
    for (const FieldNotes::Word& word : words) {
      names.push_back(word.name);
      docs.push_back(word.doc + (word.source.empty() ? "" : " (" + word.source + ")"));
    }
    ordered_json out = {{"enum", names}};
    if (!words[0].doc.empty()) out["enumDescriptions"] = docs;
    return out;
  }

  ordered_json object(const FieldNotes& notes) {
    ordered_json properties = ordered_json::object(), required = ordered_json::array();
    for (const auto& [key, field] : notes.fields) {
      properties[key] = schema(*field);
      if (field->is_required) required.push_back(key);
    }
    for (const std::string& key : notes.keys) properties[key] = schema(*notes.others);
    ordered_json out = {{"type", "object"}, {"properties", properties}};
    if (!required.empty()) out["required"] = required;
    out["additionalProperties"] = notes.others && notes.keys.empty() ? schema(*notes.others) : ordered_json(false);
    if (notes.type.empty()) return out;
    if (!definitions_.contains(notes.type)) definitions_[notes.type] = out;
    if (definitions_[notes.type] != out) return out;  // another range
    return {{"$ref", "#/$defs/" + notes.type}};
  }

  ordered_json definitions_ = ordered_json::object();
};

// `wgrad.*.rounding`, `dgrad|wgrad.a.block`, `*.hadamard.size`: one pattern a field.
ordered_json axis_patterns(Writer& writer) {
  const FieldNotes& product = *find_kind("recipe")->notes.find("wgrad");
  const std::string products = R"(^(\*|(fprop|dgrad|wgrad)(\|(fprop|dgrad|wgrad))*)\.)";
  const std::string operands = R"(((\*|[ab](\|[ab])?)\.)?)";
  ordered_json patterns = ordered_json::object();
  const auto add = [&](const std::string& pattern, const FieldNotes& value) {
    FieldNotes item = value;
    item.doc.clear();
    item.fallback = nullptr;
    item.say_form({{"type", "object"}});
    patterns[pattern] = {
        {"description", value.doc}, {"type", "array"}, {"minItems", 1}, {"items", writer.schema(item)}};
  };
  for (const auto& [key, field] : product.find("a")->fields) add(products + operands + key + "$", *field);
  for (const auto& [key, field] : product.find("hadamard")->fields) add(products + "hadamard\\." + key + "$", *field);
  add(products + "hadamard$", *product.find("hadamard"));
  for (const char* key : {"method", "share"}) add(products + "split\\." + key + "$", *product.find("split")->find(key));
  add(products + "split$", *product.find("split"));
  add(products + "accumulator$", *product.find("accumulator"));
  return patterns;
}

// First words of a path into a configuration.
std::string axis_names() {
  std::string words = R"(\*|train|task|branch|eval|recipe)";
  for (const auto& [key, field] : find_kind("recipe")->notes.fields) words += "|" + key;
  return "^(" + words + ")([.|]|$)";
}

// Beside words that the reader looks up at once stand files and parts, my.json and mxfp4@wgrad: another text is a slip.
void refuse_other_texts(ordered_json& field) {
  for (ordered_json& form : field["anyOf"])
    if (form.value("type", "") == "string") form["pattern"] = "[.@]";
}

}  // namespace

ordered_json reference_schema(const ReferenceKind& kind) {
  Writer writer;
  FieldNotes root = kind.notes;
  root.type.clear();
  ordered_json body = writer.schema(root);
  ordered_json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", kind.title}};
  out["description"] = kind.doc;
  out.update(body);
  out["properties"]["$schema"] = {{"description", "this file, for editors"}, {"type", "string"}};
  if (kind.name == "recipe") refuse_other_texts(out["properties"]["base"]);
  if (kind.name == "grid") {
    ordered_json& properties = out["properties"];
    refuse_other_texts(properties["base"]);
    refuse_other_texts(properties["task"]);
    refuse_other_texts(properties["axes"]["properties"]["recipe"]["items"]);
    for (const ReferenceKind& task : reference_kinds())
      if (!task.is_file && task.name != "train") properties["train." + task.name] = properties["train.TASK"];
    properties.erase("train.TASK");
    properties["axes"]["patternProperties"] = axis_patterns(writer);
    properties["axes"]["propertyNames"] = {{"pattern", axis_names()}};
    properties["axes"]["additionalProperties"] = {{"type", "array"}, {"minItems", 1}};
  }
  if (!writer.definitions().empty()) out["$defs"] = writer.definitions();
  return out;
}

}  // namespace fp4::tools
