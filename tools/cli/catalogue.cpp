// Every axis table of the core is one line here; data files tell their own doc and source.
#include "tools/cli/catalogue.h"

#include "fp4/converters.h"
#include "fp4/random_words.h"
#include "sim/rules/recipe.h"
#include "src/arith/spec_text.h"
#include "src/backends/backends.h"
#include "src/golden/suite.h"
#include "src/gpu/gpu_backend.h"
#include "src/layout/digit_layout.h"
#include "src/model/engine_config.h"
#include "src/model/fused_groups.h"
#include "src/model/keep_rules.h"
#include "src/model/model_tensors.h"
#include "src/text/error.h"
#include "src/text/named_rows.h"
#include "src/text/words.h"
#include "sweeps/serve/policies.h"
#include "tasks/run.h"
#include "tasks/task_data.h"
#include "tools/cli/glossary.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;

template <class Table>
std::vector<CatalogueRow> rows_of(const Table& table) {
  std::vector<CatalogueRow> rows;
  for (const auto& row : table) {
    rows.push_back({row.name, row.doc, ""});
    if constexpr (requires { row.source; }) rows.back().source = row.source;
    if constexpr (requires { row.evidence; }) rows.back().evidence = row_of(evidence_table, row.evidence).name;
  }
  return rows;
}

// Several small axes as one topic; the doc starts with the axis.
template <class Table>
void append(std::vector<CatalogueRow>& rows, const char* axis, const Table& table) {
  for (const auto& row : table) rows.push_back({std::string(axis) + "=" + row.name, row.doc, row.source});
}

std::vector<CatalogueRow> hadamards() {
  std::vector<CatalogueRow> rows;
  for (const int size : hadamard_sizes)
    rows.push_back({"size=" + std::to_string(size), "Sylvester order, tiles along the contraction axis", "2404.00456"});
  append(rows, "signs", hadamard_signs_table);
  append(rows, "normalise", hadamard_normalise_table);
  append(rows, "output", hadamard_output_table);
  return rows;
}

std::vector<CatalogueRow> policies() {
  std::vector<CatalogueRow> rows;
  append(rows, "zero_block", zero_block_table);
  append(rows, "zero_scale", zero_scale_table);
  append(rows, "negative_zero", negative_zero_table);
  append(rows, "nonfinite", nonfinite_table);
  append(rows, "ragged", ragged_table);
  append(rows, "scale_overflow", scale_overflow_table);
  append(rows, "subnormals", subnormals_table);
  append(rows, "random_stream", random_stream_table);
  append(rows, "compute", compute_table);
  append(rows, "payload", payload_order_table);
  append(rows, "payload_type", payload_type_table);
  append(rows, "factor_order", factor_order_table);
  append(rows, "error_order", error_order_table);
  append(rows, "factor_format", factor_format_table);
  append(rows, "headroom", headroom_table);
  append(rows, "exponent", exponent_table);
  append(rows, "decode", decode_table);
  append(rows, "product_factor", product_factor_table);
  return rows;
}

std::vector<CatalogueRow> converters() {
  std::vector<CatalogueRow> rows = rows_of(converter_table);
  for (size_t i = 0; i < rows.size(); ++i) {
    const ConverterInfo& row = converter_table[i];
    rows[i].doc += std::string("; ") + row.words + (row.packing[0] == '\0' ? "" : ", --packing ") + row.packing;
  }
  return rows;
}

std::vector<CatalogueRow> layouts() {
  std::vector<CatalogueRow> rows;
  const auto add = [&](const char* axis, const auto& table) {
    for (const auto& row : table)
      rows.push_back({std::string(axis) + "=" + row.name,
                      std::string(row.doc) + "; address " + golden::address_text(row.placing), row.source});
  };
  add("nibbles", golden::code_layout_table);
  add("scale-layout", golden::scale_layout_table);
  return rows;
}

std::vector<CatalogueRow> backends() {
  std::vector<CatalogueRow> rows;
  for (const Backend* backend : all_backends()) {
    std::string doc = backend->available() ? "available on this machine" : "not available on this machine";
    if (std::string_view(backend->name()) == "gpu") doc += ": " + gpu_status();
    rows.push_back({backend->name(), doc, ""});
  }
  return rows;
}

std::vector<CatalogueRow> tasks_rows() {
  std::vector<CatalogueRow> rows;
  for (const sim::Task* task : tasks::all_tasks()) rows.push_back({task->name(), task->doc(), ""});
  return rows;
}

std::string text_field(const ordered_json& value, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (value.is_object() && value.contains(key) && value[key].is_string()) return value[key].get<std::string>();
  return "";
}

ordered_json parse(std::string_view folder, const std::string& name) {
  const NamedText file = open_named_json(name, folder, folder);
  return parse_json<ordered_json>(file.text, file.place);
}

std::vector<CatalogueRow> data_files(std::string_view folder) {
  std::vector<CatalogueRow> rows;
  for (const std::string& name : named_json(folder)) {
    const ordered_json value = parse(folder, name);
    rows.push_back({name, text_field(value, {"doc", "description", "question"}), text_field(value, {"source"})});
  }
  return rows;
}

struct Topic {
  const char* name;
  std::vector<CatalogueRow> (*rows)();
};

const std::vector<Topic>& topics() {
  static const std::vector<Topic> list = {
      {"formats", [] { return rows_of(element_table); }},
      {"scales", [] { return rows_of(scale_table); }},
      {"roundings", [] { return rows_of(rounding_table); }},
      {"packings", [] { return rows_of(random_packing_table); }},
      {"converters", converters},
      {"scale-rules", [] { return rows_of(scale_rule_table); }},
      {"arithmetics", [] { return rows_of(arithmetic_table); }},
      {"tensor-scales", [] { return rows_of(tensor_scale_table); }},
      {"policies", policies},
      {"hadamards", hadamards},
      {"accumulators", [] { return rows_of(accumulator_table); }},
      {"estimators", [] { return rows_of(estimator_table); }},
      {"scale-gradients", [] { return rows_of(scale_gradient_table); }},
      {"splits", [] { return rows_of(split_table); }},
      {"presets", [] { return rows_of(preset_table); }},
      {"recipes", [] { return data_files("recipes"); }},
      {"serving", [] { return rows_of(serve::policy_table); }},
      {"tasks", tasks_rows},
      {"hardware", [] { return data_files("hardware"); }},
      {"models", [] { return data_files("models"); }},
      {"suites", [] { return rows_of(golden::suite_table); }},
      {"layouts", layouts},
      {"checkpoints", [] { return rows_of(checkpoint_schemes); }},
      {"activations", [] { return rows_of(activations_table); }},
      {"fused-groups", [] { return rows_of(fused_rows); }},
      {"keep-rules", [] { return rows_of(keep_rules); }},
      {"backends", backends},
      {"grids", [] { return data_files("grids"); }},
  };
  return list;
}

// Folders of data files that `show` knows beside presets and accumulators.
struct Kind {
  const char* name;
  const char* folder;
};
constexpr Kind kinds[] = {{"recipe", "recipes"},    {"preset", ""},      {"grid", "grids"},
                          {"hardware", "hardware"}, {"model", "models"}, {"accumulator", ""}};

std::vector<std::string> names_of_kind(const Kind& kind) {
  if (std::string_view(kind.name) == "preset") return names_of(preset_table);
  if (std::string_view(kind.name) == "accumulator") return names_of(accumulator_table);
  return named_json(kind.folder);
}

ordered_json accumulator_json(const AccumulatorInfo& info) {
  const Json fields = fields_of(info.row);
  ordered_json out;
  for (const char* first : {"kind", "group", "inner", "fraction_bits", "group_rounding", "rounding", "snap"})
    out[first] = fields[first];
  for (const auto& [key, value] : fields.items()) out[key] = value;
  return out;
}

ordered_json without_defaults(ordered_json value, const ordered_json& defaults) {
  for (const auto& [key, usual] : defaults.items())
    if (value.value(key, ordered_json()) == usual) value.erase(key);
  return value;
}

// A name in full, or in `brief` what one would copy (catalogue.h).
ordered_json show_in_kind(const Kind& kind, const std::string& name, bool brief) {
  const std::string_view word = kind.name;
  if (word == "preset") {
    const ordered_json spec = to_json(find_preset(name)->spec);
    return brief ? without_defaults(spec, to_json(QuantSpec{})) : spec;
  }
  if (word == "accumulator") {
    const ordered_json full = accumulator_json(*find_row(accumulator_table, name));
    if (!brief) return full;
    ordered_json out = {{"kind", full["kind"]}};
    out.update(without_defaults(full, accumulator_json({"", "", "", Evidence::defined, {}})));
    return out;
  }
  if (word == "recipe" && !brief) return tasks::canonical_recipe(name);
  if (brief && name.find('@') != std::string::npos) return {{"base", name}};
  ordered_json out = parse(kind.folder, name);
  if (!brief || word != "hardware") return out;
  for (auto* group : {&out, &out["rates"]})
    for (auto& [key, value] : group->items())
      if (value.is_object() && value.contains("value")) value = ordered_json(value["value"]);
  return out;
}

}  // namespace

std::vector<std::string> catalogue_topics() { return names_of(topics()); }

std::vector<CatalogueRow> catalogue_rows(std::string_view name) { return named_row("list", name, topics()).rows(); }

std::vector<std::string> catalogue_kinds_of(std::string_view name) {
  std::vector<std::string> found;
  for (const Kind& kind : kinds)
    if (contains(names_of_kind(kind), name)) found.emplace_back(kind.name);
  return found;
}

std::vector<std::string> catalogue_show_names() {
  std::vector<std::string> all;
  for (const Kind& kind : kinds)
    for (const std::string& name : names_of_kind(kind))
      if (!contains(all, name)) all.push_back(name);
  return all;
}

ordered_json catalogue_show(const std::string& name, std::string_view wanted, bool brief) {
  std::vector<std::string> accepted;
  bool known = false;
  for (const Kind& kind : kinds) {
    if (!wanted.empty() && wanted != kind.name) continue;
    known = true;
    // RECIPE@GEMM is a recipe too, and an unknown GEMM its own error.
    if (std::string_view(kind.name) == "recipe" && name.find('@') != std::string_view::npos)
      return show_in_kind(kind, name, brief);
    // A file is a recipe, or what --kind says.
    if (name.ends_with(".json") && *kind.folder != '\0') return show_in_kind(kind, name, brief);
    for (const std::string& candidate : names_of_kind(kind)) {
      if (lower_case(candidate) == lower_case(name)) return show_in_kind(kind, candidate, brief);
      if (!contains(accepted, candidate)) accepted.push_back(candidate);
    }
  }
  if (!known) throw unknown_word("show --kind", wanted, names_of(kinds));
  throw unknown_word("show", name, accepted);
}

}  // namespace fp4::tools
