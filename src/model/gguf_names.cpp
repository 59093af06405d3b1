#include "src/model/gguf_names.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

#include "src/text/error.h"

namespace fp4 {
namespace {

using nlohmann::ordered_json;

// Names in front of ".weight" and ".bias".
struct NameRow {
  const char* ours;  // of a layer: behind "model.layers.N."
  const char* gguf;  // behind "blk.N."
};
constexpr NameRow whole_rows[] = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
constexpr NameRow layer_rows[] = {
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.*.up_proj", "ffn_up_exps"},
    {"mlp.experts.*.down_proj", "ffn_down_exps"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps"},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
};
// Where has_four_norms, instead of the rows above.
constexpr NameRow four_norm_rows[] = {{"post_attention_layernorm", "post_attention_norm"},
                                      {"pre_feedforward_layernorm", "ffn_norm"},
                                      {"post_feedforward_layernorm", "post_ffw_norm"}};

enum class ValueKind : std::uint8_t { count, real };
struct ParameterRow {
  const char* ours[3];  // the first that is there
  const char* gguf;     // behind "ARCHITECTURE."
  ValueKind kind;
  bool is_needed;
};
constexpr ParameterRow parameter_rows[] = {
    {{"max_position_embeddings"}, "context_length", ValueKind::count, true},
    {{"hidden_size"}, "embedding_length", ValueKind::count, true},
    {{"num_hidden_layers"}, "block_count", ValueKind::count, true},
    {{"intermediate_size"}, "feed_forward_length", ValueKind::count, true},
    {{"num_attention_heads"}, "attention.head_count", ValueKind::count, true},
    {{"num_key_value_heads", "num_attention_heads"}, "attention.head_count_kv", ValueKind::count, true},
    {{"rms_norm_eps"}, "attention.layer_norm_rms_epsilon", ValueKind::real, true},
    {{"head_dim"}, "attention.key_length", ValueKind::count, false},
    {{"head_dim"}, "attention.value_length", ValueKind::count, false},
    {{"num_local_experts", "num_experts"}, "expert_count", ValueKind::count, false},
    {{"num_experts_per_tok"}, "expert_used_count", ValueKind::count, false},
    {{"moe_intermediate_size"}, "expert_feed_forward_length", ValueKind::count, false},
    {{"shared_expert_intermediate_size"}, "expert_shared_feed_forward_length", ValueKind::count, false},
    {{"attn_logit_softcapping"}, "attn_logit_softcapping", ValueKind::real, false},
    {{"final_logit_softcapping"}, "final_logit_softcapping", ValueKind::real, false},
    {{"vocab_size"}, "vocab_size", ValueKind::count, true},
};

// Null where the key is not there or null. Error for what is no number.
const ordered_json* value_of(const ordered_json& config, const char* key) {
  const auto at = config.find(key);
  if (at == config.end() || at->is_null()) return nullptr;
  if (!at->is_number()) throw Error(fmt::format("config.json: {} is {}, no number", key, at->dump()));
  return &*at;
}

std::uint64_t count_in(const ordered_json& value, const char* key) {
  constexpr std::uint64_t most = std::uint64_t{1} << 31;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    throw Error(fmt::format("config.json: {} is {}, no whole number of 0 to 2^31", key, value.dump()));
  return value.get<std::uint64_t>();
}

// A group of numbers; an empty one where it is null.
ordered_json group_of(const ordered_json& config, const char* key) {
  ordered_json group = config.value(key, ordered_json(nullptr));
  if (!group.is_null() && !group.is_object())
    throw Error(fmt::format("config.json: {} is {}, no object", key, group.dump()));
  return group;
}

std::int64_t count_of(const ordered_json& config, const char* key, std::int64_t otherwise) {
  const ordered_json* value = value_of(config, key);
  return value == nullptr ? otherwise : static_cast<std::int64_t>(count_in(*value, key));
}

// rope_parameters of transformers 5, rope_scaling with rope_theta beside it of older ones; layers of full attention.
ordered_json rotary_of(const ordered_json& config, const char* layers) {
  ordered_json rotary = group_of(config, "rope_parameters");
  if (rotary.is_null()) {
    rotary = group_of(config, "rope_scaling");
    if (rotary.is_null()) rotary = ordered_json::object();
    if (std::string_view(layers) == "sliding_attention")
      return {{"rope_theta", config.value("rope_local_base_freq", ordered_json(nullptr))}};
    rotary["rope_theta"] = config.value("rope_theta", ordered_json(nullptr));
    return rotary;
  }
  if (rotary.contains(layers)) return group_of(rotary, layers);
  return std::string_view(layers) == "full_attention" ? rotary : ordered_json::object();
}

std::string rotary_type(const ordered_json& rotary) {
  for (const char* key : {"rope_type", "type"})
    if (rotary.contains(key) && rotary[key].is_string()) return rotary[key].get<std::string>();
  return "default";
}

// "3.self_attn.q_proj" -> 3 and the rest; false without a number.
bool cut_number(std::string_view& text, std::int64_t& number) {
  size_t end = 0;
  number = 0;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0 && end < 9)
    number = number * 10 + (text[end++] - '0');
  if (end == 0 || end == text.size() || text[end] != '.') return false;
  text.remove_prefix(end + 1);
  return true;
}

// Whether a row's name is the text; * is a number, given back in `expert`.
bool matches(std::string_view row, std::string_view text, int& expert) {
  const size_t star = row.find('*');
  if (star == std::string_view::npos) return row == text;
  if (!text.starts_with(row.substr(0, star))) return false;
  text.remove_prefix(star);
  std::int64_t number;
  if (!cut_number(text, number) || text != row.substr(star + 2)) return false;
  expert = static_cast<int>(number);
  return true;
}

}  // namespace

std::int64_t head_size_of(const ordered_json& config) {
  const std::int64_t own = count_of(config, "head_dim", 0);
  const std::int64_t heads = count_of(config, "num_attention_heads", 0);
  return own > 0 || heads == 0 ? own : count_of(config, "hidden_size", 0) / heads;
}

const GgufArchitecture& gguf_architecture_of(const std::string& file, const ordered_json& config) {
  std::string known, own = "none";
  const auto names = config.find("architectures");
  if (names != config.end() && names->is_array() && !names->empty() && names->front().is_string())
    own = names->front().get<std::string>();
  for (const GgufArchitecture& row : gguf_architectures) {
    if (own == row.name) return row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  throw Error(
      fmt::format("{}: architectures: {} has no GGUF names here; known are {}. llama.cpp's convert_hf_to_gguf.py makes "
                  "a GGUF of it, "
                  "which `fp4sim quantize FILE.gguf` takes",
                  file, own, known));
}

GgufName gguf_name_of(const GgufArchitecture& arch, const ordered_json& config, const std::string& tensor) {
  GgufName out;
  const size_t dot = tensor.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : tensor.substr(dot);
  const std::string stem = tensor.substr(0, dot);
  if (tensor.ends_with("rotary_emb.inv_freq")) return out;
  out.adds_one = arch.adds_one && tensor.ends_with("norm.weight");
  if (ending == ".weight" || ending == ".bias") {
    for (const NameRow& row : whole_rows)
      if (stem == row.ours) {
        if (arch.adds_one && stem == "lm_head") return out;  // Gemma's is the embedding
        out.name = row.gguf + ending;
        return out;
      }
    constexpr std::string_view layers = "model.layers.";
    std::string_view rest = stem;
    std::int64_t layer;
    if (rest.starts_with(layers)) {
      rest.remove_prefix(layers.size());
      if (cut_number(rest, layer)) {
        const char* name = nullptr;
        if (arch.has_four_norms)
          for (const NameRow& row : four_norm_rows)
            if (rest == row.ours) name = row.gguf;
        for (const NameRow& row : layer_rows)
          if (name == nullptr && matches(row.ours, rest, out.expert)) name = row.gguf;
        const bool is_dense = name != nullptr && (rest == "mlp.gate_proj" || rest == "mlp.up_proj");
        if (name != nullptr && !(arch.is_sparse && is_dense)) {
          out.name = fmt::format("blk.{}.{}{}", layer, name, ending);
          const std::int64_t heads = count_of(config, "num_attention_heads", 0);
          if (arch.pairs_heads && rest == "self_attn.q_proj") out.heads = heads;
          if (arch.pairs_heads && rest == "self_attn.k_proj")
            out.heads = count_of(config, "num_key_value_heads", heads);
          return out;
        }
      }
    }
  }
  throw Error(fmt::format("{}: llama.cpp has no name for it in a model of {}", tensor, arch.name));
}

void put_parameters(GgufEntries& entries, const GgufArchitecture& arch, const ordered_json& config,
                    const std::string& file, const std::string& name) {
  const std::string prefix = std::string(arch.doc) + ".";
  // llama.cpp's graphs: the weights of the chosen experts are divided by their sum in qwen3moe, not in qwen2moe.
  const auto divides = config.find("norm_topk_prob");
  const bool is_divided = std::string_view(arch.doc) == "qwen3moe";
  if (arch.is_sparse && divides != config.end() && divides->is_boolean() && divides->get<bool>() != is_divided)
    throw Error(fmt::format("{}: norm_topk_prob is {}; llama.cpp computes {} as if it were {}", file, !is_divided,
                            arch.doc, is_divided));
  entries.text("general.architecture", arch.doc);
  entries.text("general.type", "model");
  entries.text("general.name", name);
  for (const ParameterRow& row : parameter_rows) {
    const ordered_json* value = nullptr;
    const char* used = row.ours[0];
    for (const char* key : row.ours)
      if (value == nullptr && key != nullptr) value = value_of(config, used = key);
    if (value == nullptr && row.is_needed) throw Error(fmt::format("{}: {} is missing", file, row.ours[0]));
    if (value == nullptr) continue;
    if (row.kind == ValueKind::real)
      entries.real(prefix + row.gguf, value->get<double>());
    else
      entries.count(prefix + row.gguf, count_in(*value, used));
  }
  entries.count(prefix + "rope.dimension_count", static_cast<std::uint64_t>(head_size_of(config)));
  if (arch.slides && value_of(config, "sliding_window") != nullptr)
    entries.count(prefix + "attention.sliding_window", count_in(config["sliding_window"], "sliding_window"));
  const ordered_json rotary = rotary_of(config, "full_attention"), local = rotary_of(config, "sliding_attention");
  if (const ordered_json* base = value_of(rotary, "rope_theta")) entries.real(prefix + "rope.freq_base", *base);
  if (const ordered_json* base = value_of(local, "rope_theta")) entries.real(prefix + "rope.freq_base_swa", *base);
  const std::string type = rotary_type(rotary);
  if (type == "linear" || type == "yarn") {
    if (value_of(rotary, "factor") == nullptr) throw Error(fmt::format("{}: the rotary scaling has no factor", file));
    entries.text(prefix + "rope.scaling.type", type);
    entries.real(prefix + "rope.scaling.factor", rotary["factor"].get<double>());
    if (type == "yarn")
      entries.count(prefix + "rope.scaling.original_context_length",
                    static_cast<std::uint64_t>(count_of(rotary, "original_max_position_embeddings",
                                                        count_of(config, "max_position_embeddings", 0))));
  } else if (type != "default" && type != "llama3") {
    throw Error(fmt::format("{}: rotary scaling '{}'; known are default, linear, yarn, llama3", file, type));
  }
}

std::vector<float> rotary_factors(const ordered_json& config) {
  const ordered_json rotary = rotary_of(config, "full_attention");
  if (rotary_type(rotary) != "llama3") return {};
  const auto number = [&](const char* key, double otherwise) {
    const ordered_json* value = value_of(rotary, key);
    return value == nullptr ? otherwise : value->get<double>();
  };
  const double base = number("rope_theta", 10000.0), factor = number("factor", 8.0);
  const double low = number("low_freq_factor", 1.0), high = number("high_freq_factor", 4.0);
  const double length = number("original_max_position_embeddings", 8192.0);
  const std::int64_t size = head_size_of(config);
  constexpr std::int64_t most = 1 << 16;
  if (size > most) throw Error(fmt::format("config.json: heads of {} elements; at most {} are accepted", size, most));
  std::vector<float> factors;
  for (std::int64_t i = 0; i < size; i += 2) {
    const double wave = 2 * std::numbers::pi * std::pow(base, static_cast<double>(i) / static_cast<double>(size));
    const double smooth = (length / wave - low) / (high - low);
    const double out = wave < length / high ? 1.0 : wave > length / low ? factor : 1 / ((1 - smooth) / factor + smooth);
    factors.push_back(static_cast<float>(out));
  }
  return factors;
}

}  // namespace fp4
