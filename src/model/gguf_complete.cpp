#include "src/model/gguf_complete.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "src/text/error.h"

namespace fp4 {
namespace {

// Axes by names of `sizes`; "": any. Of layers behind "blk.N.", in front of ".weight".
struct ShapeRow {
  const char* name;
  const char* axes[3];
};
constexpr ShapeRow end_shapes[] = {
    {"token_embd", {"vocabulary", "hidden"}}, {"output", {"vocabulary", "hidden"}}, {"output_norm", {"hidden"}}};
constexpr ShapeRow layer_shapes[] = {
    {"attn_norm", {"hidden"}},
    {"ffn_norm", {"hidden"}},
    {"post_attention_norm", {"hidden"}},
    {"post_ffw_norm", {"hidden"}},
    {"attn_q", {"query", "hidden"}},
    {"attn_k", {"key", "hidden"}},
    {"attn_v", {"key", "hidden"}},
    {"attn_output", {"hidden", "query"}},
    {"attn_q_norm", {"head"}},
    {"attn_k_norm", {"head"}},
    {"ffn_gate", {"inner", "hidden"}},
    {"ffn_up", {"inner", "hidden"}},
    {"ffn_down", {"hidden", "inner"}},
    {"ffn_gate_inp", {"experts", "hidden"}},
    {"ffn_gate_exps", {"experts", "expert", "hidden"}},
    {"ffn_up_exps", {"experts", "expert", "hidden"}},
    {"ffn_down_exps", {"experts", "hidden", "expert"}},
    {"ffn_gate_shexp", {"shared", "hidden"}},
    {"ffn_up_shexp", {"shared", "hidden"}},
    {"ffn_down_shexp", {"hidden", "shared"}},
};

using Sizes = std::map<std::string_view, std::uint64_t>;

Sizes sizes_of(const nlohmann::ordered_json& config) {
  const auto number = [&](std::initializer_list<const char*> keys) -> std::uint64_t {
    for (const char* key : keys)
      if (const auto at = config.find(key); at != config.end() && at->is_number_unsigned())
        return at->get<std::uint64_t>();
    return 0;
  };
  const std::uint64_t head = static_cast<std::uint64_t>(head_size_of(config));
  return {{"vocabulary", number({"vocab_size"})},
          {"hidden", number({"hidden_size"})},
          {"head", head},
          {"query", number({"num_attention_heads"}) * head},
          {"key", number({"num_key_value_heads", "num_attention_heads"}) * head},
          {"inner", number({"intermediate_size"})},
          {"experts", number({"num_local_experts", "num_experts"})},
          {"expert", number({"moe_intermediate_size", "intermediate_size"})},
          {"shared", number({"shared_expert_intermediate_size"})}};
}

void check_shape(const std::string& file, const ModelTensor& t, const ShapeRow& row, const Sizes& sizes) {
  Shape expected;
  for (const char* axis : row.axes)
    if (axis != nullptr) expected.push_back(sizes.at(axis));
  if (t.shape == expected) return;
  throw Error(fmt::format("{}: {} ({}) has shape {}; {} follows from the sizes there", file, t.name, t.whole,
                          shape_text(t.shape), shape_text(expected)));
}

std::vector<std::string> needed_of(const GgufArchitecture& arch) {
  std::vector<std::string> names = {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm"};
  const std::vector<std::string> more =
      arch.is_sparse ? std::vector<std::string>{"ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}
                     : std::vector<std::string>{"ffn_gate", "ffn_up", "ffn_down"};
  names.insert(names.end(), more.begin(), more.end());
  if (arch.has_four_norms) names.insert(names.end(), {"post_attention_norm", "post_ffw_norm"});
  return names;
}

}  // namespace

void check_complete(const GgufModel& model, const std::vector<ModelTensor>& tensors) {
  const Sizes sizes = sizes_of(model.config);
  std::map<std::string, const ModelTensor*> by_name;
  for (const ModelTensor& t : tensors) by_name[t.whole] = &t;
  const auto need = [&](const std::string& name, const char* why) {
    if (!by_name.contains(name)) throw Error(fmt::format("{}: the model has no {}{}", model.file, name, why));
  };
  need("token_embd.weight", " (embed_tokens)");
  need("output_norm.weight", " (the last norm)");
  // Gemma's head is the embedding.
  const auto tied = model.config.find("tie_word_embeddings");
  const bool is_tied = model.architecture->adds_one || (tied != model.config.end() && *tied == true);
  if (!is_tied) need("output.weight", " (lm_head), and tie_word_embeddings is not true");
  for (const ShapeRow& row : end_shapes)
    if (const auto at = by_name.find(std::string(row.name) + ".weight"); at != by_name.end())
      check_shape(model.file, *at->second, row, sizes);
  const std::uint64_t layers = model.config["num_hidden_layers"].is_number_unsigned()
                                   ? model.config["num_hidden_layers"].get<std::uint64_t>()
                                   : 0;
  // What one layer has, all have: biases and norms of heads, too.
  std::set<std::string> names;
  for (const std::string& name : needed_of(*model.architecture)) names.insert(name + ".weight");
  for (const auto& [name, t] : by_name) {
    if (!name.starts_with("blk.")) continue;
    const size_t dot = name.find('.', 4);
    names.insert(name.substr(dot + 1));
    if (std::stoull(name.substr(4, dot - 4)) >= layers)
      throw Error(
          fmt::format("{}: num_hidden_layers is {}, and the model has {} ({})", model.file, layers, t->name, name));
    for (const ShapeRow& row : layer_shapes)
      if (name.substr(dot + 1) == std::string(row.name) + ".weight") check_shape(model.file, *t, row, sizes);
  }
  for (std::uint64_t layer = 0; layer < layers; ++layer)
    for (const std::string& name : names)
      need(fmt::format("blk.{}.{}", layer, name), ", which llama.cpp needs of each of num_hidden_layers");
}

}  // namespace fp4
