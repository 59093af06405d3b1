// Reading a model, and the sizes that follow from it. Sizes are capped, so that a slip of zeros is an error instead of
// a nonsense time and no count overflows: 2^10 layers x 2^20 x 2^20 weights x 2^12 blocks = 2^62.
#include "sweeps/cost/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "src/text/member_json.h"
#include "src/text/named_rows.h"
#include "src/text/read_field.h"
#include "sweeps/cost/hardware.h"

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
  read_field(reader, "dgrad", "false: the first layer, whose input needs no gradient", linear.dgrad);
  read_field(reader, "experts", "copies of the weights: experts", linear.experts, 1, most_layers);
  read_field(reader, "top", "experts that a token meets", linear.top, 1, most_layers);
  read_field(reader, "positions", "pixels of a convolution's output, whose `in` is channels x kernel", linear.positions,
             1, widest);
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

constexpr int64_t longest = 8192;  // sequence

// A config.json of Hugging Face: names of the fields and defaults are those of transformers' configuration classes.
// What a family calls its fields, and what it has: a gate beside `up`, norms of queries and keys, biases of q, k and v.
struct Family {
  const char *name, *width, *blocks, *heads, *ffn, *positions, *experts;
  bool gated = true, qk_norms = false, qkv_bias = false;
};
const Family llama = {
    "llama", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings",
    nullptr};
Family like_llama(const char* name, const char* experts, const char* ffn, bool qk_norms, bool qkv_bias) {
  return {name, llama.width, llama.blocks, llama.heads, ffn, llama.positions, experts, true, qk_norms, qkv_bias};
}
const Family families[] = {llama,
                           like_llama("mistral", nullptr, llama.ffn, false, false),
                           like_llama("qwen2", nullptr, llama.ffn, false, true),
                           like_llama("qwen3", nullptr, llama.ffn, true, false),
                           like_llama("mixtral", "num_local_experts", llama.ffn, false, false),
                           like_llama("qwen3_moe", "num_experts", "moe_intermediate_size", true, false),
                           {"gpt2", "n_embd", "n_layer", "n_head", "n_inner", "n_positions", nullptr, false}};

// A config.json of Hugging Face names a `model_type` and no `linears`.
bool is_hf_config(const Json& object) {
  return object.is_object() && object.contains("model_type") && !object.contains("linears");
}

// In steps of eight micro-batches of one sequence of at most 8192 tokens. Throws Error for a field that is missing, and
// for a network of another kind.
// long: a formula for each figure of a model
Model model_from_hf(const Json& object, const std::string& place) {
  JsonReader reader(object, place);
  const Family& family = families[reader.at("model_type").word(names_of(families))];
  const auto whole = [&](const char* key, std::optional<int64_t> fallback = {}) {
    const auto found = fallback ? reader.find(key) : std::optional(reader.at(key));
    return found ? found->integer(1, widest) : *fallback;
  };
  const auto flag = [&](const char* key, bool fallback) {
    const auto found = reader.find(key);
    return found ? found->boolean() : fallback;
  };
  Model model;
  model.width = whole(family.width), model.blocks = whole(family.blocks), model.heads = whole(family.heads);
  const int64_t width = model.width, words = whole("vocab_size"), positions = whole(family.positions);
  const int64_t head = whole("head_dim", width / model.heads), q = model.heads * head;
  const int64_t kv = whole("num_key_value_heads", model.heads) * head;
  const int64_t ffn = family.gated ? whole(family.ffn) : whole(family.ffn, 4 * width);
  const int64_t experts = family.experts ? whole(family.experts) : 1;
  const int64_t top = family.experts ? whole("num_experts_per_tok") : 1;
  if (whole("decoder_sparse_step", 1) != 1) reader.fail("decoder_sparse_step: blocks of two kinds are not modelled");
  const std::string of = family.experts ? "expert." : "";
  const auto many = [&](std::string name, int64_t in, std::vector<int64_t> out, std::vector<std::string> layers) {
    return Linear{.name = std::move(name),
                  .in = in,
                  .out = std::move(out),
                  .layers = std::move(layers),
                  .experts = experts,
                  .top = top};
  };
  model.attention_width = q;
  model.linears = {
      {"qkv", width, {q, kv, kv}, {"q", "k", "v"}},
      {"o", q, {width}, {"o"}},
      family.gated ? many("gate_up", width, {ffn, ffn}, {of + "gate", of + "up"}) : many("up", width, {ffn}, {"up"}),
      many("down", ffn, {width}, {of + "down"})};
  const auto blocks = static_cast<size_t>(model.blocks);
  if (family.experts)
    model.unquantised = {
        {{"router", width, std::vector(blocks, experts), std::vector(blocks, std::string("router"))}, "fp32"}};
  model.unquantised.push_back({{"head", width, {words}, {"head"}}, "bf16"});
  // Inputs of both norms, q, k and v, and what the activation reads.
  model.saved_per_token_block = 2 * width + q + 2 * kv + (family.gated ? 2 : 1) * ffn * top;
  // Norms, of weights or of weights and biases; biases of all layers, or of q, k and v; embeddings.
  const int64_t norm = family.gated ? width : 2 * width;
  const int64_t qkv_bias = flag("attention_bias", family.qkv_bias) ? q + 2 * kv : 0;
  const int64_t biases = family.gated ? qkv_bias : q + 2 * kv + width + ffn + width;
  model.extra_parameters = model.blocks * (2 * norm + biases + (family.qk_norms ? 2 * head : 0)) + norm +
                           (flag("tie_word_embeddings", !family.gated) ? 0 : words * width) +
                           (family.gated ? 0 : positions * width);
  model.sequence = std::min({positions, longest, &family == &families[1] ? whole("sliding_window", longest) : longest});
  model.micro_batches = 8;
  model.tokens_per_step = model.micro_batches * model.sequence;
  const double billions = 1e-9 * static_cast<double>(model.parameters());
  const auto path = reader.find("_name_or_path");
  const std::string name = path ? path->text() : "";
  model.name =
      name.empty() ? fmt::format("{}_{:.3g}b", family.name, billions) : name.substr(name.find_last_of('/') + 1);
  model.source = place + ", a config.json of Hugging Face";
  model.doc = fmt::format("a {} of {:.4g} billion weights; sequence {}, 8 micro-batches of one on each accelerator",
                          family.name, billions, model.sequence);
  return model;
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
  read_field(reader, "doc", "the model in a line", model.doc);
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
  read_field(reader, "heads", "of attention; 0: one for each 128 of its width", model.heads, 0, widest);
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
