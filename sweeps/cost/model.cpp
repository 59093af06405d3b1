// Reading a model, and the sizes that follow from it. Every size is capped at 2^40, so that products of three of them
// divided by FLOP/s stay far from overflow, and a slip of zeros is an error instead of a nonsense time.
#include "sweeps/cost/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "src/error.h"
#include "sweeps/cost/hardware.h"

namespace fp4::cost {

namespace {

constexpr int64_t largest = int64_t{1} << 40;  // a size no model reaches; products stay far inside int64

Linear parse_linear(JsonReader& reader) {
  Linear linear;
  linear.name = reader.text("name");
  linear.in = reader.integer("in", 1, largest);
  const Json& out = reader.at("out");
  if (!out.is_array() || out.empty()) reader.fail("out: expected a list of widths, one a layer");
  for (const Json& width : out)
    linear.out.push_back(
        static_cast<int64_t>(checked_number(width, reader.place() + ": out", 1, static_cast<double>(largest))));
  linear.dgrad = reader.boolean("dgrad", true);
  if (const Json* layers = reader.find("layers")) {
    if (!layers->is_array() || layers->size() != linear.out.size())
      reader.fail("layers: expected one name for each width of out");
    for (const Json& name : *layers) {
      if (!name.is_string()) reader.fail("layers: expected names");
      linear.layers.push_back(name.get<std::string>());
    }
  } else {
    linear.layers.assign(linear.out.size(), linear.name);
  }
  return linear;
}

Json linear_json(const Linear& linear) {
  Json out = {{"name", linear.name}, {"in", linear.in}, {"out", linear.out}, {"layers", linear.layers}};
  if (!linear.dgrad) out["dgrad"] = false;
  return out;
}

}  // namespace

int64_t Linear::width_out() const { return std::accumulate(out.begin(), out.end(), int64_t{0}); }

int64_t Model::linear_parameters() const {
  int64_t block = 0;
  for (const Linear& linear : linears) block += linear.in * linear.width_out();
  return block * blocks;
}

int64_t Model::parameters() const {
  int64_t total = linear_parameters() + extra_parameters;
  for (const UnquantisedLinear& row : unquantised) total += row.linear.in * row.linear.width_out();
  return total;
}

int64_t Model::layers() const {
  int64_t block = 0;
  for (const Linear& linear : linears) block += static_cast<int64_t>(linear.out.size());
  return block * blocks;
}

Model parse_model(const Json& object, const std::string& place) {
  JsonReader reader(object, place);
  Model model;
  model.name = reader.text("name");
  model.doc = reader.text("doc");
  model.source = reader.text("source");
  model.blocks = reader.integer("blocks", 1, 1 << 20);
  model.width = reader.integer("width", 1, largest);
  const Json& linears = reader.at("linears");
  if (!linears.is_array() || linears.empty()) reader.fail("linears: expected a list of linear layers");
  for (const Json& row : linears) {
    JsonReader inner(row, place + ": linears");
    model.linears.push_back(parse_linear(inner));
    inner.finish();
  }
  const Json* unquantised = reader.find("unquantised");
  if (unquantised != nullptr && !unquantised->is_array()) reader.fail("unquantised: expected a list of linear layers");
  for (const Json& row : unquantised != nullptr ? *unquantised : Json::array()) {
    JsonReader inner(row, place + ": unquantised");
    UnquantisedLinear linear{parse_linear(inner), inner.text("class")};
    const std::vector<std::string>& classes = format_classes();
    if (std::find(classes.begin(), classes.end(), linear.format_class) == classes.end())
      throw unknown_word(inner.place() + ": class", linear.format_class, classes);
    inner.finish();
    model.unquantised.push_back(std::move(linear));
  }
  model.attention_width = reader.integer("attention_width", 0, largest);
  model.sequence = reader.integer("sequence", 0, largest);
  model.tokens_per_step = reader.integer("tokens_per_step", 1, largest);
  model.micro_batches = reader.integer("micro_batches", 1, model.tokens_per_step);
  if (model.tokens_per_step % model.micro_batches != 0) reader.fail("micro_batches does not divide tokens_per_step");
  model.saved_per_token_block = reader.integer("saved_per_token_block", 0, largest);
  model.extra_parameters = reader.integer("extra_parameters", 0, largest);
  reader.finish();
  return model;
}

Model load_model(std::string_view word) {
  return parse_model(load_json(word, "models", "model"), fmt::format("model {}", word));
}

std::vector<std::string> model_names() { return builtin_names("models"); }

Json to_json(const Model& model) {
  Json out = {{"name", model.name},
              {"doc", model.doc},
              {"source", model.source},
              {"blocks", model.blocks},
              {"width", model.width},
              {"attention_width", model.attention_width},
              {"sequence", model.sequence},
              {"tokens_per_step", model.tokens_per_step},
              {"micro_batches", model.micro_batches},
              {"saved_per_token_block", model.saved_per_token_block},
              {"extra_parameters", model.extra_parameters}};
  out["linears"] = Json::array();
  for (const Linear& linear : model.linears) out["linears"].push_back(linear_json(linear));
  out["unquantised"] = Json::array();
  for (const UnquantisedLinear& row : model.unquantised) {
    Json json = linear_json(row.linear);
    json["class"] = row.format_class;
    out["unquantised"].push_back(std::move(json));
  }
  return out;
}

}  // namespace fp4::cost
