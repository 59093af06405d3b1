// See recipe.h; words of operands and products are those of src/spec_text.
#include "sim/recipe.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "fp4/presets.h"
#include "sim/optim.h"
#include "src/embedded.h"
#include "src/error.h"

namespace fp4::sim {

namespace {

constexpr const char* gemm_keys[] = {"fprop", "dgrad", "wgrad"};
const std::vector<std::string> recipe_keys = {"name",   "doc",       "source",      "deviations", "base",
                                              "all",    "fprop",     "dgrad",       "wgrad",      "quantise",
                                              "layers", "optimizer", "loss_scaling"};

GemmSpec& gemm_of(Recipe& r, int i) { return i == 0 ? r.fprop : i == 1 ? r.dgrad : r.wgrad; }

GemmSpec uniform(const char* preset) {
  GemmSpec g;
  g.a.quant = g.b.quant = find_preset(preset)->spec;
  return g;
}

Json parsed(std::string_view text, const std::string& place) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    throw Error(place + ": not JSON: " + e.what());
  }
}

Json recipe_text(const std::string& name) {
  if (name.ends_with(".json")) {
    std::ifstream file(name);
    if (!file) throw Error("recipe: cannot read " + name);
    std::stringstream text;
    text << file.rdbuf();
    return parsed(text.str(), name);
  }
  const std::vector<std::string> known = recipe_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) throw unknown_word("recipe", name, known);
  return parsed(embedded("recipes/" + name + ".json"), name);
}

LayerPolicy layers_from(const Json& given) {
  using Kind = LayerPolicy::Kind;
  LayerPolicy p;
  const std::vector<std::string> accepted = {"all", "skip_first", "skip_last", "names"};
  if (given == "all") return p;
  if (!given.is_object() || given.size() != 1) throw unknown_word("recipe layers", given.dump(), accepted);
  const auto only = given.begin();  // not items(): what its iterator points to dies with it
  const std::string& key = only.key();
  const Json& value = only.value();
  if (key == "names") {
    p.kind = Kind::names;
    if (!value.is_array()) throw Error("recipe layers.names: expected a list of layer names");
    for (const Json& n : value) p.names.push_back(n.get<std::string>());
    return p;
  }
  if (key != "skip_first" && key != "skip_last") throw unknown_word("recipe layers", key, accepted);
  if (!value.is_number() || value.get<double>() < 0) throw Error("recipe layers." + key + ": expected a number >= 0");
  p.kind = key == "skip_first" ? Kind::skip_first : Kind::skip_last;
  p.amount = value.get<double>();
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

std::string text_of(const Json& v, const std::string& place) {
  if (!v.is_string()) throw Error("recipe " + place + ": expected text, got " + v.dump());
  return v.get<std::string>();
}
bool flag_of(const Json& v, const std::string& place) {
  if (!v.is_boolean()) throw Error("recipe " + place + ": expected true or false, got " + v.dump());
  return v.get<bool>();
}

Recipe from_object(const Json& given) {
  Recipe r;
  r.fprop = r.dgrad = r.wgrad = uniform("fp32");
  if (given.contains("base")) r = recipe_from_json(given.at("base"));
  for (const auto& [key, value] : given.items())
    if (std::find(recipe_keys.begin(), recipe_keys.end(), key) == recipe_keys.end())
      throw unknown_word("recipe", key, recipe_keys);
  const auto read = [&](const char* key, auto& target, const auto& convert) {
    if (given.contains(key)) target = convert(given.at(key), key);
  };
  read("name", r.name, text_of), read("doc", r.doc, text_of), read("source", r.source, text_of);
  read("deviations", r.deviations, text_of), read("optimizer", r.optimizer, text_of);
  read("quantise", r.quantise, flag_of), read("loss_scaling", r.loss_scaling, flag_of);
  if (given.contains("layers")) r.layers = layers_from(given.at("layers"));
  for (const char* key : {"all", "fprop", "dgrad", "wgrad"}) {
    if (!given.contains(key)) continue;
    for (int i = 0; i < 3; ++i)
      if (std::string(key) == "all" || std::string(key) == gemm_keys[i])
        set_gemm(gemm_of(r, i), given.at(key), std::string("recipe ") + gemm_keys[i]);
  }
  return r;
}

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (std::string_view path : embedded_names("recipes")) {
    const std::string name = std::filesystem::path(path).stem().string();
    names.push_back(name);
  }
  return names;
}

Recipe recipe_from_json(const Json& given) {
  if (given.is_object()) return from_object(given);
  if (!given.is_string()) throw Error("recipe: expected a name or an object, got " + given.dump());
  const std::string word = given.get<std::string>();
  const size_t at = word.find('@');
  Recipe r = from_object(recipe_text(word.substr(0, at)));
  if (at == std::string::npos) return r;
  const std::string gemm = word.substr(at + 1);
  const auto* found = std::find(std::begin(gemm_keys), std::end(gemm_keys), gemm);
  if (found == std::end(gemm_keys)) throw unknown_word("recipe " + word, gemm, {"fprop", "dgrad", "wgrad"});
  r.name = word;
  r.doc = gemm + " of " + word.substr(0, at) + ", the other two products in bf16";
  for (int i = 0; i < 3; ++i)
    if (gemm_keys[i] != *found) gemm_of(r, i) = uniform("bf16");
  return r;
}

Recipe canonical(Recipe r) {
  for (int i = 0; i < 3; ++i) gemm_of(r, i) = fp4::canonical(gemm_of(r, i), i == 0);
  return r;
}

Json to_json(const Recipe& recipe) {
  Recipe r = recipe;
  Json out = {{"name", r.name},           {"doc", r.doc},
              {"source", r.source},       {"deviations", r.deviations},
              {"quantise", r.quantise},   {"layers", layers_to(r.layers)},
              {"optimizer", r.optimizer}, {"loss_scaling", r.loss_scaling}};
  for (int i = 0; i < 3; ++i) out[gemm_keys[i]] = fp4::to_json(gemm_of(r, i), i == 0);
  return out;
}

std::string invalid_reason(const Recipe& recipe) {
  Recipe r = recipe;
  for (int i = 0; i < 3; ++i) {
    const std::string reason = fp4::invalid_reason(gemm_of(r, i), i == 0);
    if (!reason.empty()) return std::string(gemm_keys[i]) + ": " + reason;
  }
  if (!r.optimizer.empty())
    for (const Field& f : optimizer_schema())
      if (f.path == "optimizer" && std::find(f.words.begin(), f.words.end(), r.optimizer) == f.words.end())
        throw unknown_word("recipe optimizer", r.optimizer, f.words);
  return "";
}

}  // namespace fp4::sim
