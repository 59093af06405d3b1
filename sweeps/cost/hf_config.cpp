// See hf_config.h. Names of fields and their defaults are those of transformers' configuration classes.
#include "sweeps/cost/hf_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/text/named_rows.h"

namespace fp4::cost {

namespace {

constexpr int64_t widest_network = 1 << 20, longest = 8192;

// Names of the fields, and what a family has: a gate beside `up`, norms of queries and keys, biases of q, k and v.
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

}  // namespace

bool is_hf_config(const Json& object) {
  return object.is_object() && object.contains("model_type") && !object.contains("linears");
}

// long: a formula for each figure of a model
Model model_from_hf(const Json& object, const std::string& place) {
  JsonReader reader(object, place);
  const Family& family = families[reader.at("model_type").word(names_of(families))];
  const auto whole = [&](const char* key, std::optional<int64_t> fallback = {}) {
    const auto found = fallback ? reader.find(key) : std::optional(reader.at(key));
    return found ? found->integer(1, widest_network) : *fallback;
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

}  // namespace fp4::cost
