// Kinds of files, and documents in which every field occurs: their readers, run once on these, note all that they ask.
// A field that a reader asks for only in a certain form needs that form in one of the documents.
#include "tools/cli/reference.h"

#include <limits>

#include "sim/rules/recipe.h"
#include "sim/train/train.h"
#include "src/arith/spec_text.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/cost/model.h"
#include "sweeps/cost/weights.h"
#include "sweeps/grid/grid.h"
#include "sweeps/serve/service_file.h"
#include "tasks/run.h"
#include "tasks/task_data.h"

namespace fp4::tools {

namespace {

constexpr const char* accumulator = R"({"kind": "windowed", "group": 64, "inner": 4, "fraction_bits": 39,
    "group_rounding": "nearest_even", "rounding": "toward_zero", "snap": 0, "zero_exponent": -126, "result_bits": 23,
    "unscaled": false, "tf32": false, "sum": "fp32", "scale_bits": 35, "carried_bits": 35, "carried_inner": 16,
    "cuts_outranked": false, "subnormal_floor": -174, "clamps": false})";

FieldNotes recipe_notes() {
  FieldNotes notes;
  Json operand = to_json(OperandSpec{}, /*is_fprop=*/true);
  const Json fp32 = to_json(find_preset("fp32")->spec);
  operand.update(fp32);
  operand["source"] = "high_precision";
  operand["preset"] = "fp32";
  Json fp32_spec = fp32;
  fp32_spec["preset"] = "fp32";
  const Json product = {{"*", operand},
                        {"a", operand},
                        {"b", operand},
                        {"hadamard", to_json(HadamardSpec{})},
                        {"accumulator", parse_json(accumulator, "accumulator")},
                        {"split", {{"method", "clamp"}, {"share", 0.01}, {"high", fp32_spec}}}};
  Json full = sim::to_json(Recipe{});
  full["center_keys"] = false;
  full["sparse"] = "none";
  full["attn"] = sim::attention_rules_to({});
  full["attn"]["kv"]["preset"] = "fp32";
  full["calls"] = sim::calls_to({});
  for (const char* key : {"all", "fprop", "dgrad", "wgrad"}) full[key] = product;
  sim::recipe_from_json(full, "recipe", &notes);
  sim::recipe_from_json({{"base", "fp32"}}, "recipe", &notes);
  for (const Json& layers : {Json{{"skip_first", 1}}, Json{{"skip_last", 1}}, Json{{"names", {"down"}}}})
    sim::recipe_from_json({{"layers", layers}}, "recipe", &notes);
  const Json changes = {{"all", product}, {"fprop", product}, {"dgrad", product}, {"wgrad", product}};
  Json phases = Json::array({changes, changes}), rules = Json::array();
  phases[0]["until"] = 0.5;
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, Json>>{
           {"match", "down"}, {"kind", "ffn"}, {"first", 1}, {"last", 1}}) {
    rules.push_back(changes);
    rules.back()[key] = value;
    rules.back()["sparse"] = "none";
  }
  rules.push_back({{"match", "down"}, {"recipe", "bf16"}, {"optional", true}});
  phases.push_back({{"recipe", "bf16"}});
  phases[0]["sparse"] = phases[1]["sparse"] = "none";
  phases[1]["until"] = 0.6;
  phases[2]["when"] = "gradient_noise_ratio < 1.73";
  const Json weights = parse_json(R"({"average": {"decay": 0.9983, "from": 10},
      "reset": {"every": 200, "window": 50, "threshold": 6},
      "ramp": {"every": 200, "window": 30, "threshold": 16, "factor": 5}})",
                                  "weights");
  const Json ptq = sim::post_training_to({.codes = sim::WeightCodes::gptq});
  sim::recipe_from_json({{"layers", rules}, {"phases", phases}, {"weights", weights}, {"ptq", ptq}}, "recipe", &notes);
  return notes;
}

FieldNotes spec_notes() {
  FieldNotes notes;
  QuantSpec spec;
  Json full = to_json(spec);
  full["preset"] = "mxfp4";
  set_quant(spec, JsonReader(full, "spec", &notes));
  return notes;
}

FieldNotes accumulator_notes(const FieldNotes& recipe) {
  FieldNotes notes = *recipe.find("wgrad")->find("accumulator");
  notes.words.clear();  // a file describes one; names stand in its place
  notes.doc.clear();
  return notes;
}

FieldNotes hardware_notes() {
  FieldNotes notes;
  Json full = cost::to_json(cost::load_hardware("mi355x"));
  full["link_shared"] = {{"value", 2}, {"kind", "given"}, {"source", ""}};
  full["rented_whole"] = true;
  full["elements"]["fp4"] =
      full["undocumented"]["fp4"] = {{"value", Json::array({"e2m1"})}, {"kind", "given"}, {"source", ""}};
  cost::parse_hardware(full, "hardware", &notes);
  return notes;
}

FieldNotes model_notes() {
  FieldNotes notes;
  Json full = cost::to_json(cost::load_model("lm"));
  for (const char* list : {"linears", "unquantised"})
    for (Json& linear : full[list]) linear["dgrad"] = true, linear["experts"] = linear["top"] = linear["positions"] = 1;
  cost::parse_model(full, "model", &notes);
  return notes;
}

FieldNotes weights_notes() {
  FieldNotes notes;
  Json full = Json::object();
  for (const cost::WeightRow& row : cost::weight_table()) full[row.name] = 1;
  cost::parse_weights(full, "weights", &notes);
  return notes;
}

FieldNotes service_notes() {
  FieldNotes notes;
  const Json full = parse_json(R"({"name": "s", "doc": "", "hardware": "b200", "model": "llama_1b", "request_tokens": 1,
    "members": [{"checkpoint": "a.ck", "recipe": "nvfp4", "model": "lm", "rounding_seeds": [1], "name": "m", "group": "g"}],
    "targets": [{"accuracy": 0.9, "latency_ms": 5, "share": 1}],
    "trace": {"arrivals": "csv", "file": "t.csv", "rate": 1, "seconds": 1, "period": 1, "depth": 1, "length": 1, "factor": 1},
    "instance": {"share": 1, "overhead_ms": 1, "batch": 1, "start_up_s": 1, "tick_s": 1, "utilisation": 1,
                 "transient_price": 1, "losses_per_hour": 1}, "window": 1, "margin": 0, "tolerance": 0})",
                               "service");
  serve::parse_service(full, "service", "", &notes);
  return notes;
}

// A row of a schema (sim/rules/config.h), whose default tells its type.
void note_row(FieldNotes& notes, const sim::Field& row) {
  const Json& value = row.default_value;
  notes.say({row.doc, value}, /*required=*/false);
  const double low = row.low == -std::numeric_limits<double>::infinity() ? -huge : row.low;
  const double high = row.high == std::numeric_limits<double>::infinity() ? huge : row.high;
  if (value.is_number()) notes.say_number(low, high, value.is_number_integer());
  notes.is_boolean = notes.is_boolean || value.is_boolean();
  for (const std::string& word : row.words) notes.say_word(word);
  if (value.is_string() && row.words.empty()) notes.is_text = true;
}

void note_schema(FieldNotes& notes, const sim::Schema& schema) {
  for (const sim::Field& row : schema) {
    FieldNotes* at = &notes;
    std::string_view path = row.path;
    for (size_t dot; (dot = path.find('.')) != std::string_view::npos; path.remove_prefix(dot + 1)) {
      at = &at->field(path.substr(0, dot));
      at->say({"settings of one group"}, /*required=*/false);
    }
    note_row(at->field(path), row);
  }
}

FieldNotes train_notes() {
  FieldNotes notes;
  note_schema(notes, sim::train_schema());
  for (const sim::Task* task : tasks::all_tasks()) {
    const Json given = tasks::task_defaults(task->name()).at("train");
    for (const auto& [key, field] : notes.fields)
      if (given.at(key) != field->fallback) field->fallbacks.emplace_back(task->name(), given.at(key));
  }
  return notes;
}

FieldNotes task_notes(const std::string& task) {
  FieldNotes notes;
  note_schema(notes, tasks::task_schema(task));
  return notes;
}

// A list of values of one field; an object carries a label.
void note_axis(FieldNotes& axes, const std::string& path, const FieldNotes& value) {
  FieldNotes& axis = axes.field(path);
  if (axis.doc.empty()) axis.doc = value.doc;
  axis.least = 1;
  FieldNotes& item = axis.item();
  item = value;
  item.is_required = false;
  item.doc.clear();
  item.fallback = nullptr;
  item.fallbacks.clear();
  item.say_form({{"type", "object"}});
}

// Paths of axes; those into a recipe are free (`wgrad.*.rounding`), and stand as patterns in the schema.
void note_axes(FieldNotes& axes) {
  FieldNotes recipe = {.doc = "recipes, or objects laid over the base", .is_text = true};
  for (const std::string& name : sim::recipe_names()) recipe.say_word(name);
  note_axis(axes, "recipe", recipe);
  for (const char* product : {"fprop", "dgrad", "wgrad"}) {
    FieldNotes whole;
    whole.doc = std::string("whole products, RECIPE.") + product + ", or objects laid over the base's";
    whole.is_text = true;
    for (const std::string& name : sim::recipe_names()) whole.say_word(name + "." + product);
    note_axis(axes, product, whole);
  }
  const FieldNotes train = train_notes();
  for (const auto& [key, field] : train.fields) note_axis(axes, "train." + key, *field);
  std::map<std::string, FieldNotes> shared;
  for (const std::string& task : tasks::task_names()) {
    for (const sim::Field& row : tasks::task_schema(task)) {
      FieldNotes one;
      note_row(one, row);
      note_axis(axes, "task." + task + "." + row.path, one);
      note_row(shared[row.path], row);
    }
  }
  for (const auto& [path, field] : shared) note_axis(axes, "task.*." + path, field);
}

// Numbers of the training by name, so that editors complete them; numbers of a recipe stay free.
void note_tuned(FieldNotes& tune) {
  const FieldNotes train = train_notes();
  for (const auto& [key, field] : train.fields) {
    if (!field->is_number) continue;
    FieldNotes& tuned = tune.field("train." + key);
    tuned = *tune.others;
    tuned.doc = field->doc;
  }
}

FieldNotes grid_notes() {
  FieldNotes notes;
  Json full = parse_json(R"({"name": "g", "doc": "", "task": "lm", "seeds": [1], "base": "fp32",
      "axes": {"train.clip": [1]}, "train": {}, "branch": {"recipe": "bf16", "at": [0.5], "distil": [1]},
      "eval": ["own", "nvfp4@weights"], "exclude": [{"train.clip": 1}], "include": [{"train.clip": 2}],
      "explore": "all", "references": ["bf16"], "hardware": ["b200"], "model": "llama3_8b", "candidates": 60})",
                         "grid");
  const auto read = [&] { sweeps::parse_grid(full.dump(), "grid", &notes); };
  full["explore"] = {{"importance", 1}};
  read();
  full.erase("explore");
  full["tune"] = parse_json(R"({"train.lr": {"start": 1, "factor": 2, "rungs": 4, "finer": true, "judged": 2,
      "seeds": 3, "by": "setting"}})",
                            "tune");
  full["tune_best"] = 0.2;
  full["race"] = {{"seeds", 320}, {"hours", 1}, {"share", 0.05}, {"delta", 0.1}};
  read();
  const auto settings = [&](FieldNotes& field) {
    FieldNotes train = train_notes();
    train.doc = field.doc;
    field = train;
    field.type = "train";
  };
  settings(notes.field("train"));
  settings(notes.field("train.TASK"));
  note_axes(notes.field("axes"));
  note_tuned(notes.field("tune"));
  FieldNotes& judged = notes.field("eval").item();
  judged.say_word("own");
  for (const std::string& name : sim::recipe_names()) judged.say_word(name);
  for (FieldNotes* task : {&notes.field("task"), &notes.field("task").item()})
    for (const std::string& name : tasks::task_names()) task->say_word(name);
  return notes;
}

std::vector<ReferenceKind> kinds_of_files() {
  const FieldNotes recipe = recipe_notes();
  std::vector<ReferenceKind> list = {
      {"recipe", "a recipe", "how the three products of a linear layer are quantised; what is left out is fp32",
       recipe},
      {"spec", "a spec", "how one tensor is quantised; `fp4sim quantize --spec`, as key=value, too", spec_notes()},
      {"accumulator", "an accumulator", "how a matrix unit adds up; `fp4sim gemm --accumulator`",
       accumulator_notes(recipe)},
      {"grid", "a grid", "which configurations an experiment runs; `fp4sim sweep run`", grid_notes()},
      {"hardware", "a hardware profile", "what the cost model knows of a chip; `fp4sim cost --hardware`",
       hardware_notes()},
      {"model", "a model", "what a network costs to train, apart from the recipe; `fp4sim cost --model`",
       model_notes()},
      {"weights", "weights of the cost model", "numbers of the cost model that can be turned; `fp4sim cost --weight`",
       weights_notes()},
      {"service", "a service", "networks that answer requests, on what, and when these arrive; `fp4sim serve`",
       service_notes()},
      {"train", "the training", "`--set lr=0.01`, `train.lr` in a grid; a task has defaults of its own", train_notes(),
       false},
  };
  for (const sim::Task* task : tasks::all_tasks()) {
    list.push_back({task->name(), "the task " + task->name(),
                    task->doc() + "; `task." + task->name() + ".NAME` in a grid", task_notes(task->name()), false});
  }
  return list;
}

void find_unexplained(const FieldNotes& notes, const std::string& path, std::vector<std::string>& found) {
  const bool has_form = notes.is_text || notes.is_boolean || notes.is_integer || notes.is_number || notes.is_object ||
                        !notes.words.empty() || !notes.forms.empty() || notes.items;
  const bool is_entry = path.ends_with("]") || path.find('.') == std::string::npos;
  if (!has_form || (notes.doc.empty() && !is_entry)) found.push_back(path);
  for (const auto& [key, field] : notes.fields) find_unexplained(*field, path + "." + key, found);
  if (notes.items && notes.items->is_object) find_unexplained(*notes.items, path + "[]", found);
}

}  // namespace

const std::vector<ReferenceKind>& reference_kinds() {
  static const std::vector<ReferenceKind> list = kinds_of_files();
  return list;
}

const ReferenceKind* find_kind(std::string_view name) {
  for (const ReferenceKind& kind : reference_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

std::vector<std::string> unexplained_fields() {
  std::vector<std::string> found;
  for (const ReferenceKind& kind : reference_kinds()) find_unexplained(kind.notes, kind.name, found);
  return found;
}

}  // namespace fp4::tools
