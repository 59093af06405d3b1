// See recipe.h; words of operands and products are those of src/spec_text.
#include "sim/rules/recipe.h"

#include <algorithm>

#include "fp4/presets.h"
#include "src/text/error.h"
#include "src/text/read_field.h"

namespace fp4::sim {

namespace {

constexpr const char* gemm_docs[] = {"forward product, Y = X W^T: fields, or RECIPE.PRODUCT (bf16.fprop)",
                                     "gradient of the input, dX = dY W, likewise",
                                     "gradient of the weights, dW = dY^T X, likewise"};

// Texts of a recipe, as they are called in its file.
struct TextField {
  const char* name;
  std::string fp4::Recipe::*field;
  const char* doc;
};
constexpr TextField text_fields[] = {
    {"name", &Recipe::name, "the recipe's word in results of `train`; a sweep's tables name it as the grid does"},
    {"doc", &Recipe::doc, "what it does, in a line"},
    {"source", &Recipe::source, "paper, specification or code that it follows"},
    {"deviations", &Recipe::deviations, "where it differs from its source"}};

GemmSpec uniform(const char* preset) {
  GemmSpec g;
  g.a.quant = g.b.quant = find_preset(preset)->spec;
  return g;
}

// The words of the task's training are those of a recipe, with "" for the task's own choice.
std::vector<std::string> words_of_optimizer() {
  std::vector<std::string> words = optimizer_words();
  words.insert(words.begin(), "");
  return words;
}

LayerPolicy layers_from(JsonReader given) {
  using Kind = LayerPolicy::Kind;
  LayerPolicy p;
  given.note_words({"all"});
  if (given.json() == "all") return p;
  const auto rule = [&](const char* key, const char* doc) {
    return given.json().is_object() ? given.find(key, {doc}) : std::nullopt;
  };
  const auto first = rule("skip_first", "layers at the start that stay in bf16, or a share of all below 1");
  const auto last = rule("skip_last", "layers at the end that stay in bf16, or a share of all below 1");
  const auto names = rule("names", "only these layers are quantised: `down`, `block3.down`");
  if (first.has_value() + last.has_value() + names.has_value() != 1)
    given.fail(
        "expected a list of rules or one of \"all\", {\"skip_first\": N}, {\"skip_last\": N} and {\"names\": [..]}, "
        "found " +
        shown(given.json()));
  given.finish();
  if (names) {
    p.kind = Kind::names;
    for (const JsonReader& name : names->list()) p.names.push_back(name.text());
    return p;
  }
  p.kind = first ? Kind::skip_first : Kind::skip_last;
  p.amount = share_or_count(first ? *first : *last, 1e6, "layers");
  return p;
}

Json layers_to(const LayerPolicy& p) {
  switch (p.kind) {
    case LayerPolicy::Kind::all: return "all";
    case LayerPolicy::Kind::skip_first: return {{"skip_first", p.amount}};
    case LayerPolicy::Kind::skip_last: return {{"skip_last", p.amount}};
    case LayerPolicy::Kind::names: return {{"names", p.names}};
  }
  return "all";
}

TrainingRecipe from_word(const std::string& word, const std::string& place);

// Counts recipes inside recipes: a file that names itself, as base or in a rule, would never end.
class Nesting {
 public:
  explicit Nesting(const JsonReader& given) {
    if (depth_ == 16) given.fail("more than 16 recipes name one another");
    ++depth_;
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  inline static thread_local int depth_ = 0;
};

TrainingRecipe from_object(JsonReader given) {
  const Nesting nesting(given);
  TrainingRecipe r;
  r.fprop = r.dgrad = r.wgrad = uniform("fp32");
  if (const auto base =
          given.find("base", {"recipe to start from: a name, NAME@PRODUCT, a file or an object", "fp32"})) {
    base->note_form(R"({"$ref": "#"})");
    base->note_words(base->notes() != nullptr ? recipe_names() : std::vector<std::string>());
    r = base->json().is_object() ? from_object(*base) : from_word(base->text(), base->place());
  }
  for (const TextField& row : text_fields) read_field(given, row.name, row.doc, r.*row.field);
  read_field(given, "quantise", "false: the words stand, nothing is rounded", r.quantise);
  read_field(given, "loss_scaling", "dynamic scale of the loss", r.loss_scaling);
  read_field(given, "center_keys", "a quantised Q K^T sees K minus its mean over the sequence", r.center_keys);
  read_row(given, "sparse",
           "mask of the linear layers' weights by magnitude, along K of fprop: zeros in fprop and dgrad, straight "
           "through for their gradient",
           sparsity_table, r.sparse);
  if (const auto value = given.find("layers", {"which linear layers are quantised, the others run in bf16", "all"})) {
    if (value->json().is_array()) {
      r.layers = {};
      r.rules = rules_from(*value);
    } else {
      r.rules.clear();
      r.layers = layers_from(*value);
    }
  }
  if (const auto value = given.find("phases", {"changes over the steps, in order; each but the last has an `until`"}))
    r.phases = phases_from(*value);
  if (const auto value = given.find("weights", {"what is done about weights that oscillate"}))
    r.weights = weight_rules_from(*value);
  if (const auto value = given.find("ptq", {"what `fp4sim eval` does to the weights of a trained network"}))
    r.ptq = post_training_from(*value, r.ptq);
  if (const auto value = given.find("attn", {"how attention stores K and V and rounds its softmax"}))
    r.attention = attention_rules_from(*value, r.attention);
  if (const auto value = given.find("calls", {"how `fp4sim eval` calls the forward products: rows, parts of K"}))
    r.calls = calls_from(*value, r.calls);
  if (const auto value =
          given.find("optimizer", {"update rule instead of the task's; empty: the task's", r.optimizer})) {
    const std::vector<std::string> words = words_of_optimizer();
    r.optimizer = words[value->word(words)];
  }
  Sparsity mask = r.sparse;
  if (const auto all = given.find("all", {"all three products, before the single ones"}))
    for (int i = 0; i < 3; ++i) set_product(product_of(r, i), &mask, *all);
  for (int i = 0; i < 3; ++i)
    if (const auto gemm = given.find(product_words[i], {gemm_docs[i]}))
      set_product(product_of(r, i), i == 0 ? &mask : nullptr, *gemm);
  if (!given.json().contains("sparse")) r.sparse = mask;
  given.finish();
  return r;
}

// NAME, NAME@GEMM, NAME@weights or PATH.json.
TrainingRecipe from_word(const std::string& word, const std::string& place) {
  const size_t at = word.ends_with(".json") ? std::string::npos : word.rfind('@');
  const NamedText file = open_named_json(word.substr(0, at), "recipes", "recipe", place);
  const Json document = parse_json(file.text, file.place);
  TrainingRecipe r = from_object({document, file.place});
  if (at == std::string::npos) return r;
  const std::string gemm = word.substr(at + 1);
  const bool is_weights = gemm == "weights";
  const auto* found = is_weights ? product_words : std::find(std::begin(product_words), std::end(product_words), gemm);
  if (found == std::end(product_words))
    throw unknown_word(place + ": " + word, gemm, {"fprop", "dgrad", "wgrad", "weights"});
  if (!r.rules.empty() || !r.phases.empty() || r.weights.any())
    throw Error(place + ": " + word +
                ": the recipe has rules over layers or weights, or phases, of which one product is none");
  const std::string whole = r.name;  // spelt as its file spells it
  r.name = whole + "@" + gemm;
  r.doc = gemm + " of " + whole + ", the other two products in bf16";
  for (int i = 0; i < 3; ++i)
    if (product_words[i] != *found) product_of(r, i) = uniform("bf16");
  if (*found != product_words[0]) r.sparse = Sparsity::none;  // fprop's weights are another recipe's
  r.attention = {}, r.center_keys = false;
  if (is_weights) {
    r.doc = "weights of " + whole + " in the forward product, all else in bf16";
    r.fprop.a = uniform("bf16").a;
    r.fprop.split = {};
  }
  return r;
}

}  // namespace

const std::vector<std::string>& optimizer_words() {
  static const std::vector<std::string> words = {"adam", "adamw", "sgd"};
  return words;
}

std::vector<std::string> recipe_names() { return named_json("recipes"); }

TrainingRecipe recipe_from_json(const Json& given, const std::string& place, FieldNotes* notes) {
  if (given.is_object()) return from_object({given, place, notes});
  if (!given.is_string()) throw Error(place + ": expected a name or an object, found " + shown(given));
  return from_word(given.get<std::string>(), place);
}

TrainingRecipe canonical(TrainingRecipe r) {
  for (int i = 0; i < 3; ++i) product_of(r, i) = fp4::canonical(product_of(r, i), i == 0);
  return r;
}

Json to_json(const TrainingRecipe& recipe) {
  TrainingRecipe r = recipe;
  Json out = {{"name", r.name},           {"doc", r.doc},
              {"source", r.source},       {"deviations", r.deviations},
              {"quantise", r.quantise},   {"layers", r.rules.empty() ? layers_to(r.layers) : rules_to(r.rules)},
              {"optimizer", r.optimizer}, {"loss_scaling", r.loss_scaling}};
  if (r.sparse != Sparsity::none) out["sparse"] = row_of(sparsity_table, r.sparse).name;
  if (r.center_keys) out["center_keys"] = true;
  if (!r.phases.empty()) out["phases"] = phases_to(r.phases);
  if (r.weights.any()) out["weights"] = weight_rules_to(r.weights);
  if (r.ptq.any() || r.attention.calibrates()) out["ptq"] = post_training_to(r.ptq);
  if (r.attention.any()) out["attn"] = attention_rules_to(r.attention);
  if (r.calls.any()) out["calls"] = calls_to(r.calls);
  for (int i = 0; i < 3; ++i) out[product_words[i]] = fp4::to_json(product_of(r, i), i == 0);
  return out;
}

std::string invalid_reason(const TrainingRecipe& recipe) {
  TrainingRecipe r = recipe;
  for (int i = 0; i < 3; ++i) {
    const std::string reason = fp4::invalid_reason(product_of(r, i), i == 0);
    if (!reason.empty()) return std::string(product_words[i]) + ": " + reason;
  }
  if (const std::string reason = fp4::invalid_reason(r.attention.kv); !reason.empty()) return "attn.kv: " + reason;
  try {
    for (size_t i = 0; i < r.phases.size(); ++i) products_in(r, r, static_cast<int>(i));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace fp4::sim
