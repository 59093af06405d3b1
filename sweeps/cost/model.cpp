// Reading a model, and the sizes that follow from it. Sizes are capped, so that a slip of zeros is an error instead of
// a nonsense time and no count overflows: 2^10 layers x 2^20 x 2^20 weights x 2^12 blocks = 2^62.
#include "sweeps/cost/model.h"

#include <fmt/format.h>

#include <numeric>

#include "src/text/member_json.h"
#include "sweeps/cost/hardware.h"
#include "sweeps/cost/hf_config.h"

namespace fp4::cost {

namespace {

constexpr int64_t largest = int64_t{1} << 40;  // tokens, parameters
constexpr int64_t widest = 1 << 20, most_blocks = 1 << 12, most_layers = 1 << 10;

Linear parse_linear(JsonReader& reader) {
  Linear linear;
  linear.name = reader.at("name", {"the GEMM's word in tables"}).text();
  linear.in = reader.at("in", {"width of the input"}).integer(1, widest);
  for (const JsonReader& width : reader.at("out", {"widths of the layers that share the input: q, k, v"}).list(1))
    linear.out.push_back(width.integer(1, widest));
  if (const auto dgrad = reader.find("dgrad", {"false: the first layer, whose input needs no gradient", linear.dgrad}))
    linear.dgrad = dgrad->boolean();
  if (const auto experts = reader.find("experts", {"copies of the weights: experts", linear.experts}))
    linear.experts = experts->integer(1, most_layers);
  if (const auto top = reader.find("top", {"experts that a token meets", linear.top}))
    linear.top = top->integer(1, most_layers);
  if (const auto positions = reader.find(
          "positions", {"pixels of a convolution's output, whose `in` is channels x kernel", linear.positions}))
    linear.positions = positions->integer(1, widest);
  if (linear.top > linear.experts) reader.fail("top: expected at most experts");
  if (const auto layers = reader.find("layers", {"their names, as a recipe's `layers` writes them; default: `name`"})) {
    for (const JsonReader& name : layers->list()) linear.layers.push_back(name.text());
    if (linear.layers.size() != linear.out.size()) layers->fail("expected one name for each width of out");
  } else {
    linear.layers.assign(linear.out.size(), linear.name);
  }
  return linear;
}

Json linear_json(const Linear& linear) {
  Json out = FP4_NAMED(linear.name, linear.in, linear.out, linear.layers);
  if (!linear.dgrad) out["dgrad"] = false;
  if (linear.experts > 1) out["experts"] = linear.experts, out["top"] = linear.top;
  if (linear.positions > 1) out["positions"] = linear.positions;
  return out;
}

}  // namespace

int64_t Linear::width_out() const { return std::accumulate(out.begin(), out.end(), int64_t{0}); }

int64_t Model::cached_elements() const {
  int64_t width = 0;
  for (const Linear& linear : linears)
    for (size_t i = 0; i < linear.layers.size(); ++i)
      if (linear.layers[i] == "k" || linear.layers[i] == "v") width += linear.out[i];
  return blocks * (width > 0 ? width : 2 * attention_width);
}

int64_t Model::linear_parameters() const {
  int64_t block = 0;
  for (const Linear& linear : linears) block += linear.in * linear.width_out() * linear.experts;
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

Model parse_model(const Json& object, const std::string& place, FieldNotes* notes) {
  JsonReader reader(object, place, notes);
  Model model;
  model.name = reader.at("name", {"the model's word in tables"}).text();
  if (const auto doc = reader.find("doc", {"the model in a line", ""})) model.doc = doc->text();
  model.source = reader.at("source", {"where its sizes come from"}).text();
  model.blocks = reader.at("blocks", {"how often `linears` repeats"}).integer(1, most_blocks);
  model.width = reader.at("width", {"width of the residual stream"}).integer(1, widest);
  size_t layers = 0;
  for (JsonReader& row :
       reader.at("linears", {"linear layers of one block, in the order of the forward pass"}).list(1)) {
    model.linears.push_back(parse_linear(row));
    layers += model.linears.back().out.size();
    row.finish();
  }
  if (const auto unquantised = reader.find("unquantised", {"layers that no recipe quantises: the head"})) {
    for (JsonReader& row : unquantised->list()) {
      Linear linear = parse_linear(row);
      layers += linear.out.size();
      model.unquantised.push_back(
          {std::move(linear),
           format_classes()[row.at("class", {"the format that it runs in"}).word(format_classes())]});
      row.finish();
    }
  }
  if (layers > most_layers) reader.fail(fmt::format("{} linear layers; at most {}", layers, most_layers));
  model.attention_width = reader.at("attention_width", {"heads x head size; 0: no attention"}).integer(0, widest);
  if (const auto heads = reader.find("heads", {"of attention; 0: one for each 128 of its width", model.heads}))
    model.heads = heads->integer(0, widest);
  model.sequence = reader.at("sequence", {"tokens of a sequence"}).integer(0, largest);
  model.tokens_per_step = reader.at("tokens_per_step", {"tokens of a step on one accelerator"}).integer(1, largest);
  const JsonReader micro = reader.at("micro_batches", {"batches accumulated into a step; divides tokens_per_step"});
  model.micro_batches = micro.integer(1, largest);
  if (model.tokens_per_step % model.micro_batches != 0) micro.fail("does not divide tokens_per_step");
  model.saved_per_token_block =
      reader
          .at("saved_per_token_block", {"bf16 elements of a token and block kept for the backward pass, besides the "
                                        "inputs of `linears`"})
          .integer(0, widest);
  model.extra_parameters =
      reader.at("extra_parameters", {"parameters of embeddings, norms and biases"}).integer(0, largest);
  reader.finish();
  return model;
}

Model load_model(std::string_view word, std::string_view place) {
  const NamedText file = open_named_json(word, "models", "model", place);
  const Json object = parse_json(file.text, file.place);
  return is_hf_config(object) ? model_from_hf(object, file.place) : parse_model(object, file.place);
}

std::vector<std::string> model_names() { return named_json("models"); }

Json to_json(const Model& model) {
  Json out = FP4_NAMED(model.name, model.doc, model.source, model.blocks, model.width, model.attention_width,
                       model.heads, model.sequence, model.tokens_per_step, model.micro_batches,
                       model.saved_per_token_block, model.extra_parameters);
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
