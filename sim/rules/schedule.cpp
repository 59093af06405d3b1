// Rules over layers and phases over steps; see schedule.h.
#include "sim/rules/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sim/rules/recipe.h"
#include "src/text/error.h"
#include "src/text/read_field.h"

namespace fp4::sim {

namespace {

struct SelectorRow {
  const char* key;
  LayerRule::By by;
  const char* doc;
};
constexpr SelectorRow selectors[] = {
    {"match", LayerRule::By::match, "pattern over layer names: `down`, `block3.*`, `head`"},
    {"kind", LayerRule::By::kind,
     "attention (q, k, v, o), ffn (the other quantisable layers), head, embedding, or a product of attention: qk, pv"},
    {"first", LayerRule::By::first, "layers at the start, or a share of all below 1"},
    {"last", LayerRule::By::last, "layers at the end, or a share of all below 1"}};

constexpr const char* own_kinds[] = {"head", "embedding", "qk", "pv"};  // of layers that only rules quantise

// Of all ways to read the stars so far only the last star's can still matter: at most |pattern| * |text| steps.
bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, after_star = 0, resume = 0;
  bool starred = false;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      starred = true;
      after_star = ++p;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (starred) {
      p = after_star;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.substr(p).find_first_not_of('*') == std::string_view::npos;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string kind_of(const LayerPlace& place) {
  const std::string part = last_part(place.name);
  if (place.position < 0)
    return std::find(std::begin(own_kinds), std::end(own_kinds), part) == std::end(own_kinds) ? "" : part;
  return part == "q" || part == "k" || part == "v" || part == "o" ? "attention" : "ffn";
}

Json products_json(const std::string& word, const std::string& place) {
  const Json full = to_json(canonical(recipe_from_json(word, place)));
  Json change = Json::object();
  for (const char* key : product_words) change[key] = full.at(key);
  if (const auto sparse = full.find("sparse"); sparse != full.end()) change["sparse"] = *sparse;
  return change;
}

// "bf16.fprop", which brings its recipe's mask along, or an object.
void add_product(Json& change, const std::string& key, const JsonReader& given) {
  given.note_form(R"({"type": "string"})");
  if (!given.json().is_string()) {
    GemmSpec tried;
    set_gemm(tried, given);  // words and types
    change[key] = given.json();
    return;
  }
  const std::string word = given.text();
  const size_t dot = word.rfind('.');
  const std::string product = dot == std::string::npos ? "" : word.substr(dot + 1);
  if (std::find(std::begin(product_words), std::end(product_words), product) == std::end(product_words))
    given.fail("expected a product or RECIPE.PRODUCT (bf16.fprop), found " + shown(given.json()));
  const Json products = products_json(word.substr(0, dot), given.place());
  change[key] = products.at(product);
  if (key != "fprop" && key != "all") return;
  change.erase("sparse");
  if (product == "fprop" && products.contains("sparse")) change["sparse"] = products["sparse"];
}

// What a rule or a phase changes; empty when it says nothing.
Json change_from(JsonReader& given) {
  Json change = Json::object();
  const auto recipe = given.find("recipe", {"recipe whose three products count instead"});
  if (recipe && recipe->notes() != nullptr) recipe->note_words(recipe_names());
  if (const auto all = given.find("all", {"changes of all three products"})) add_product(change, "all", *all);
  for (const char* key : product_words)
    if (const auto product = given.find(key, {"changes of one product: fields, or RECIPE.PRODUCT (bf16.fprop)"}))
      add_product(change, key, *product);
  if (recipe && !change.empty()) given.fail("expected a recipe or changes of products, found both");
  if (recipe) change = products_json(recipe->text(), recipe->place());
  if (const auto sparse = given.find("sparse", {"mask of the weights instead"}))
    change["sparse"] = sparse->row(sparsity_table).name;
  return change;
}

// A recipe's product in full, as it is written, not single fields of it.
bool is_whole(const Json& change) {
  GemmSpec own;
  set_gemm(own, change, "");
  for (const bool is_fprop : {false, true})
    if (fp4::to_json(fp4::canonical(own, is_fprop), is_fprop) == change) return true;
  return false;
}

// It takes the place of the one before; a split that it lacks goes, too.
void apply_product(GemmSpec& product, const Json& change, const std::string& place) {
  if (is_whole(change)) product.split = {};
  set_gemm(product, change, place);
}

void apply(fp4::Recipe& r, const Json& change, const std::string& place) {
  if (const auto all = change.find("all"); all != change.end())
    for (int i = 0; i < 3; ++i) apply_product(product_of(r, i), *all, place);
  for (int i = 0; i < 3; ++i)
    if (const auto product = change.find(product_words[i]); product != change.end())
      apply_product(product_of(r, i), *product, place);
}

void apply_mask(Sparsity& sparsity, const Json& change) {
  for (const char* key : {"all", "fprop"})
    if (const auto product = change.find(key); product != change.end() && is_whole(*product)) sparsity = Sparsity::none;
  if (const auto own = change.find("sparse"); own != change.end())
    sparsity = find_row(sparsity_table, own->get<std::string>())->id;
}

constexpr std::string_view condition = "gradient_noise_ratio < ";

double threshold_of(const JsonReader& given) {
  const std::string text = given.text();
  const double threshold =
      text.starts_with(condition) ? number_from_text(text.substr(condition.size()), given.place()) : 0;
  if (!(threshold > 0) && given.notes() == nullptr)
    given.fail("expected gradient_noise_ratio < NUMBER, found " + shown(given.json()));
  return threshold;
}

fp4::Recipe checked(fp4::Recipe r, const std::string& place) {
  for (int i = 0; i < 3; ++i) {
    GemmSpec& product = product_of(r, i);
    product = fp4::canonical(product, i == 0);
    if (const std::string reason = fp4::invalid_reason(product, i == 0); !reason.empty())
      throw Error(fmt::format("{}: {}: {}", place, product_words[i], reason));
  }
  return r;
}

}  // namespace

void set_product(GemmSpec& product, Sparsity* mask, const JsonReader& given) {
  Json change;
  add_product(change, "fprop", given);
  apply_product(product, change["fprop"], given.place());
  if (mask != nullptr) apply_mask(*mask, change);
}

double share_or_count(const JsonReader& given, double high, const char* unit) {
  const double amount = given.number(0, high);
  if (amount > 1 && amount != std::floor(amount)) given.fail(fmt::format("expected whole {} from 1 on", unit));
  return amount;
}

int layers_at_end(double amount, int count) {
  return std::min(count, static_cast<int>(amount < 1 ? std::floor(amount * count + 0.5) : std::min(amount, 1e9)));
}

bool selects(const LayerRule& rule, const LayerPlace& place) {
  const bool is_pattern = rule.word.find_first_of("*?") != std::string::npos;
  const bool is_quantisable = place.position >= 0;
  switch (rule.by) {
    case LayerRule::By::match:
      return (is_quantisable || !is_pattern) &&
             (matches(rule.word, place.name) || matches(rule.word, last_part(place.name)));
    case LayerRule::By::kind: return kind_of(place) == rule.word;
    case LayerRule::By::first: return is_quantisable && place.position < layers_at_end(rule.amount, place.count);
    case LayerRule::By::last:
      return is_quantisable && place.position >= place.count - layers_at_end(rule.amount, place.count);
  }
  return false;
}

bool is_ruled(const TrainingRecipe& recipe, const LayerPlace& place) {
  return std::any_of(recipe.rules.begin(), recipe.rules.end(), [&](const LayerRule& r) { return selects(r, place); });
}

fp4::Recipe products_in(const TrainingRecipe& recipe, fp4::Recipe start, int phase) {
  if (phase < 0) return start;
  const std::string place = fmt::format("phases[{}]", phase);
  apply(start, recipe.phases[static_cast<size_t>(phase)].change, place);
  return checked(std::move(start), place);
}

fp4::Recipe products_at(const TrainingRecipe& recipe, fp4::Recipe start, const LayerPlace& place, int phase) {
  for (size_t i = 0; i < recipe.rules.size(); ++i)
    if (selects(recipe.rules[i], place)) apply(start, recipe.rules[i].change, fmt::format("layers[{}]", i));
  if (is_ruled(recipe, place)) start = checked(std::move(start), "layers: " + place.name);
  return products_in(recipe, std::move(start), phase);
}

Sparsity sparsity_at(const TrainingRecipe& recipe, Sparsity start, const LayerPlace& place, int phase) {
  for (const LayerRule& rule : recipe.rules)
    if (selects(rule, place)) apply_mask(start, rule.change);
  if (phase >= 0) apply_mask(start, recipe.phases[static_cast<size_t>(phase)].change);
  return start;
}

std::vector<int> phase_ends(const TrainingRecipe& recipe, int steps) {
  std::vector<int> ends;
  for (const Phase& phase : recipe.phases) {
    const double end = phase.until < 1 ? std::floor(phase.until * steps + 0.5) : phase.until;
    const int here = !phase.is_marked ? steps : static_cast<int>(std::min<double>(end, steps));
    ends.push_back(ends.empty() ? here : std::max(ends.back(), here));
  }
  return ends;
}

int phase_of(const TrainingRecipe& recipe, int step, int steps) {
  const std::vector<int> ends = phase_ends(recipe, steps);
  const auto found = std::find_if(ends.begin(), ends.end(), [&](int end) { return step <= end; });
  return static_cast<int>(found - ends.begin()) - (found == ends.end() ? 1 : 0);
}

std::vector<double> phase_shares(const TrainingRecipe& recipe, int steps) {
  std::vector<double> shares;
  if (steps > 0) {
    int begin = 0;
    for (const int end : phase_ends(recipe, steps)) {
      shares.push_back(static_cast<double>(end - begin) / steps);
      begin = end;
    }
    return shares;
  }
  double begin = 0;
  for (size_t i = 0; i < recipe.phases.size(); ++i) {
    const bool is_marked = recipe.phases[i].is_marked;
    const double until = is_marked ? recipe.phases[i].until : 1;
    if (is_marked && until >= 1)
      throw Error(
          fmt::format("phases[{}]: until {:g} counts steps, and the steps of the training are not known; "
                      "accepted: a share below 1, or --steps",
                      i, until));
    shares.push_back(std::max(0.0, until - begin));
    begin = std::max(begin, until);
  }
  return shares;
}

void check_rules(const TrainingRecipe& recipe, const std::vector<LayerPlace>& layers, const std::string& place) {
  for (const LayerRule& rule : recipe.rules) {
    if (rule.word.empty() || rule.optional) continue;
    if (std::any_of(layers.begin(), layers.end(), [&](const LayerPlace& l) { return selects(rule, l); })) continue;
    std::vector<std::string> known;
    for (const LayerPlace& l : layers) {
      const std::string word = rule.by == LayerRule::By::match ? l.name : kind_of(l);
      if (!word.empty() && std::find(known.begin(), known.end(), word) == known.end()) known.push_back(word);
    }
    throw Error(fmt::format("{}: {} {} selects no layer of the model; accepted: {}, or \"optional\": true in the rule",
                            place, rule.by == LayerRule::By::match ? "match" : "kind", rule.word,
                            fmt::join(known, ", ")));
  }
}

std::vector<LayerRule> rules_from(const JsonReader& list) {
  std::vector<LayerRule> rules;
  for (JsonReader given : list.list()) {
    LayerRule rule;
    int found = 0;
    for (const SelectorRow& row : selectors) {
      const auto value = given.find(row.key, {row.doc});
      if (!value) continue;
      ++found;
      rule.by = row.by;
      if (row.by == LayerRule::By::match) {
        rule.word = value->text();
        if (rule.word.empty() && list.notes() == nullptr)
          value->fail("expected a pattern over layer names, found \"\"");
      } else if (row.by == LayerRule::By::kind) {
        std::vector<std::string> kinds = {"attention", "ffn"};
        kinds.insert(kinds.end(), std::begin(own_kinds), std::end(own_kinds));
        rule.word = kinds[value->word(kinds)];
      } else {
        rule.amount = share_or_count(*value, 1e6, "layers");
      }
    }
    read_field(given, "optional", "`match` and `kind` may select no layer", rule.optional);
    rule.change = change_from(given);
    given.finish();
    if (found != 1) given.fail("expected one of match, kind, first and last, found " + shown(given.json()));
    if (rule.change.empty()) given.fail("expected a recipe or changes of products, found " + shown(given.json()));
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<Phase> phases_from(const JsonReader& list) {
  std::vector<Phase> phases;
  const std::vector<JsonReader> items = list.list(list.notes() != nullptr ? 0 : 2);
  for (size_t i = 0; i < items.size(); ++i) {
    JsonReader given = items[i];
    Phase phase;
    const auto until =
        given.find("until", {"steps after which the next phase begins, or a share below 1; the last has none"});
    phase.is_marked = until.has_value();
    if (until) phase.until = share_or_count(*until, 1e9, "steps");
    if (const auto when =
            given.find("when", {"the phase begins once this holds, for good: gradient_noise_ratio < 1.73"}))
      phase.when = threshold_of(*when);
    if (phase.when > 0 && i == 0) given.fail("the first phase begins at once: leave out when");
    const bool is_last = i + 1 == items.size();
    const bool may_lack = is_last || (items[i + 1].json().is_object() && items[i + 1].json().contains("when"));
    if (until && is_last) given.fail("the last phase lasts to the end: leave out until");
    if (!until && !may_lack) given.fail("expected until, steps or a share of them");
    // A share and a number of steps can be compared only where the steps of the training are known.
    if (until && i > 0 && phases.back().is_marked && (phase.until < 1) == (phases.back().until < 1) &&
        phase.until <= phases.back().until)
      given.fail("until does not grow");
    phase.change = change_from(given);
    given.finish();
    phases.push_back(std::move(phase));
  }
  return phases;
}

Json rules_to(const std::vector<LayerRule>& rules) {
  Json list = Json::array();
  for (const LayerRule& rule : rules) {
    Json out = rule.change;
    const char* key = selectors[static_cast<size_t>(rule.by)].key;
    if (rule.word.empty())
      out[key] = rule.amount;
    else
      out[key] = rule.word;
    if (rule.optional) out["optional"] = true;
    list.push_back(out);
  }
  return list;
}

Json phases_to(const std::vector<Phase>& phases) {
  Json list = Json::array();
  for (size_t i = 0; i < phases.size(); ++i) {
    list.push_back(phases[i].change);
    if (phases[i].is_marked) list.back()["until"] = phases[i].until;
    if (phases[i].when > 0) list.back()["when"] = fmt::format("{}{}", condition, phases[i].when);
  }
  return list;
}

}  // namespace fp4::sim
