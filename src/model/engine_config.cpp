#include "src/model/engine_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "src/model/keep_rules.h"
#include "src/text/error.h"
#include "src/text/version.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

using nlohmann::ordered_json;

bool is_scheme(const CheckpointScheme& scheme, std::string_view beginning) {
  return std::string_view(scheme.name).starts_with(beginning);
}

// Keys of config.json that say how weights are quantised.
constexpr const char* format_keys[] = {"quantization_config", "compression_config", "expert_dtype", "quantization"};

// The objects that may hold such entries: the whole, and what it says of its language model.
std::vector<ordered_json*> places_of(ordered_json& config) {
  std::vector<ordered_json*> out = {&config};
  for (const char* part : {"text_config", "llm_config", "language_config"})
    if (config.contains(part) && config[part].is_object()) out.push_back(&config[part]);
  return out;
}

void erase_format(ordered_json& config) {
  for (ordered_json* place : places_of(config))
    for (const char* key : format_keys) place->erase(key);
}

// compressed-tensors' `ignore`: names of modules, and patterns of those that a rule keeps ("re:.*vision_tower.*"),
// which also match what transformers calls them. No pattern matches a quantised module.
std::vector<std::string> ignored_modules(const ConfigJob& job) {
  // A glob as a regular expression that matches from the beginning of the name on.
  const auto expression = [](std::string_view glob) {
    std::string out = "re:";
    for (const char c : glob) out += c == '*' ? ".*" : c == '.' ? "\\." : std::string(1, c);
    return glob.ends_with('*') ? out : out + "$";
  };
  const auto is_safe = [&](const std::string& glob) {
    return std::none_of(job.quantised.begin(), job.quantised.end(),
                        [&](const auto& m) { return has_match({glob}, m); });
  };
  std::vector<std::string> out;
  const auto add = [&](std::string word) {
    if (std::find(out.begin(), out.end(), word) == out.end()) out.push_back(std::move(word));
  };
  for (const std::string& module : job.left) {
    const KeepRule* rule = keep_rule_of(module + ".weight");
    std::string glob = rule != nullptr ? rule->name : "";
    if (glob.ends_with(".*")) glob.resize(glob.size() - 2);
    const bool is_general = glob.starts_with('*') && has_match({glob}, module) && is_safe(glob);
    add(is_general ? expression(glob) : module);
    if (rule != nullptr && *rule->loaded != '\0' && is_safe(rule->loaded)) add(expression(rule->loaded));
    if (is_general) continue;
    // "layers.0.mlp.up_proj": what comes before it has another name on the other side.
    const size_t at = module.find("layers.");
    if (!job.has_towers || at == std::string::npos) continue;
    if (const std::string tail = "*." + module.substr(at); is_safe(tail)) add(expression(tail));
  }
  return out;
}

// As Model-Optimizer writes exclude_modules: of each module that is left the shortest dotted prefix, with a star, under
// which nothing is quantised.
std::vector<std::string> prefix_patterns(std::vector<std::string> left, std::vector<std::string> quantised) {
  std::sort(quantised.begin(), quantised.end());
  const auto is_begun = [&](const std::string& prefix) {
    const auto at = std::lower_bound(quantised.begin(), quantised.end(), prefix);
    return at != quantised.end() && at->starts_with(prefix);
  };
  std::set<std::string> out;
  for (const std::string& name : left) {
    std::string pattern = name;
    for (size_t dot = name.find('.'); dot != std::string::npos && pattern == name; dot = name.find('.', dot + 1)) {
      const std::string prefix = name.substr(0, dot);
      if (!is_begun(prefix))
        pattern = prefix + "*";
      else if (!is_begun(prefix + ".") && !std::binary_search(quantised.begin(), quantised.end(), prefix))
        pattern = prefix + ".*";
    }
    out.insert(pattern);
  }
  return {out.begin(), out.end()};
}

// Of weights or inputs, as compressed-tensors' QuantizationArgs.
ordered_json compressed_arguments(const CheckpointScheme& scheme, const ordered_json& dynamic) {
  if (scheme.is_fp8())
    return {{"num_bits", 8},
            {"type", "float"},
            {"symmetric", true},
            {"strategy", dynamic == true ? "token" : "channel"},
            {"dynamic", dynamic}};
  const bool is_nvfp4 = scheme.block == 16;
  return {{"num_bits", 4},
          {"type", "float"},
          {"symmetric", true},
          {"strategy", is_nvfp4 ? "tensor_group" : "group"},
          {"group_size", scheme.block},
          {"dynamic", dynamic},
          {"scale_dtype", is_nvfp4 ? "torch.float8_e4m3fn" : "torch.uint8"}};
}

ordered_json compressed_config(const ConfigJob& job) {
  const std::string format = job.scheme->is_fp8()      ? "float-quantized"
                             : job.scheme->block == 16 ? "nvfp4-pack-quantized"
                                                       : "mxfp4-pack-quantized";
  ordered_json inputs = nullptr;
  // "local": block scales at run time, the tensor's factor as stored.
  if (job.activations == Activations::calibrated) inputs = compressed_arguments(*job.scheme, "local");
  if (job.activations == Activations::dynamic) inputs = compressed_arguments(*job.scheme, true);
  const ordered_json group = {{"targets", {"Linear"}},
                              {"weights", compressed_arguments(*job.scheme, false)},
                              {"input_activations", inputs},
                              {"output_activations", nullptr},
                              {"format", format}};
  return {{"quant_method", "compressed-tensors"}, {"format", format},
          {"quantization_status", "compressed"},  {"config_groups", {{"group_0", group}}},
          {"ignore", ignored_modules(job)},       {"kv_cache_scheme", job.cache.scheme},
          {"global_compression_ratio", nullptr}};
}

std::string model_optimizer_algorithm(const ConfigJob& job) {
  if (job.scheme->block != 16) return "mxfp4";
  return job.activations == Activations::none ? "W4A16_NVFP4" : "NVFP4";
}

ordered_json producer() { return {{"name", "modelopt"}, {"version", "0+fp4sim." + std::string(version())}}; }

ordered_json model_optimizer_entry(const ConfigJob& job) {
  const ordered_json arguments = {
      {"dynamic", false}, {"num_bits", 4}, {"type", "float"}, {"group_size", job.scheme->block}};
  ordered_json group = {{"weights", arguments}, {"targets", {"Linear"}}};
  if (job.activations != Activations::none) group["input_activations"] = arguments;
  ordered_json config;
  if (job.scheme->block == 16) config["config_groups"] = {{"group_0", group}};
  config["ignore"] = prefix_patterns(job.left, job.quantised);
  config["quant_algo"] = model_optimizer_algorithm(job);
  if (!job.cache.scheme.is_null()) config["kv_cache_scheme"] = job.cache.scheme;
  config["group_size"] = job.scheme->block;
  config["producer"] = producer();
  config["quant_method"] = "modelopt";
  return config;
}

}  // namespace

Activations activations_of(const std::string& place, const std::string& word, const CheckpointScheme& scheme) {
  const EngineRules& rules = scheme.engine;
  if (word.empty()) return rules.activations[0];
  const Activations wanted = named_row(place, word, activations_table).id;
  std::vector<std::string> taken;
  for (const auto& row : activations_table)
    if (contains(rules.activations, row.id)) taken.emplace_back(row.name);
  if (contains(taken, word)) return wanted;
  const bool needs_factor = wanted == Activations::dynamic && *rules.inputs != '\0';
  throw Error(fmt::format(
      "{}: {} takes {}, not {}{}", place, scheme.name, fmt::join(taken, " or "), word,
      needs_factor ? fmt::format(": engines multiply {}, which only calibration gives", rules.inputs) : ""));
}

std::string module_of(const std::string& tensor) {
  constexpr std::string_view ending = ".weight";
  if (tensor.ends_with(ending)) return tensor.substr(0, tensor.size() - ending.size());
  const size_t dot = tensor.rfind('.');
  return is_expert(tensor) && dot != std::string::npos ? tensor.substr(0, dot) : tensor;
}

ordered_json quantised_config(ordered_json config, const ConfigJob& job) {
  erase_format(config);
  if (is_scheme(*job.scheme, "compressed_tensors")) config["quantization_config"] = compressed_config(job);
  if (is_scheme(*job.scheme, "modelopt")) config["quantization_config"] = model_optimizer_entry(job);
  if (is_scheme(*job.scheme, "gpt_oss"))
    config["quantization_config"] = {{"modules_to_not_convert", patterns_for(job.left, job.quantised)},
                                     {"quant_method", "mxfp4"}};
  if (is_scheme(*job.scheme, "mlx"))  // mlx-lm writes it under both keys, and asks each layer for its scales
    config["quantization"] = config["quantization_config"] = {
        {"group_size", job.scheme->block}, {"bits", 4}, {"mode", mlx_mode(*job.scheme)}};
  if (is_scheme(*job.scheme, "deepseek") || is_scheme(*job.scheme, "fp8")) {
    config["quantization_config"] = {
        {"activation_scheme", "dynamic"}, {"fmt", "e4m3"}, {"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
    if (!job.scheme->is_fp8()) {
      config["expert_dtype"] = "fp4";
      config["quantization_config"]["scale_fmt"] = "ue8m0";
    }
    if (!job.left.empty()) config["quantization_config"]["modules_to_not_convert"] = job.left;
  }
  return config;
}

ordered_json model_optimizer_config(const ConfigJob& job) {
  if (!is_scheme(*job.scheme, "modelopt")) return nullptr;
  return {{"producer", producer()},
          {"quantization",
           {{"quant_algo", model_optimizer_algorithm(job)},
            {"kv_cache_quant_algo", job.cache.algorithm},
            {"group_size", job.scheme->block},
            {"exclude_modules", prefix_patterns(job.left, job.quantised)}}}};
}

void leave_out(ordered_json& entry, const std::vector<std::string>& modules, const char* usual) {
  const char* key = usual;
  for (const char* word : {"modules_to_not_convert", "exclude_modules"})
    if (entry.contains(word)) key = word;
  if (!entry.contains(key) || !entry[key].is_array()) entry[key] = ordered_json::array();
  for (const std::string& name : modules)
    if (!contains(entry[key], name)) entry[key].push_back(name);
}

ordered_json decoded_config(ordered_json config, const std::vector<std::string>& decoded, bool remains) {
  if (!remains) {
    erase_format(config);
    return config;
  }
  if (config.contains("quantization")) return config;  // MLX: a layer is quantised that has scales
  for (ordered_json* place : places_of(config))
    for (const char* entry : {"quantization_config", "compression_config"}) {
      if (!place->contains(entry) || (*place)[entry].is_null()) continue;
      ordered_json& old = (*place)[entry];
      if (!old.is_object())
        throw Error(fmt::format("config.json: {} is {}, no object, and weights of it remain", entry, old.dump()));
      leave_out(old, decoded, "ignore");
    }
  return config;
}

}  // namespace fp4
