#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/files/safetensors.h"
#include "src/model/engine_config.h"
#include "src/model/keep_rules.h"
#include "src/model/model_files.h"
#include "src/model/model_plan.h"
#include "src/text/json_reader.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Keys of __metadata__ that describe how the source's weights were quantised.
constexpr const char* marks_key = "_quantization_metadata";
constexpr const char* format_metadata[] = {marks_key, "quantization_config", "quantization"};

// The marks of layers whose weights stay in their FP4 or FP8 form; "" without any.
std::string marks_of_kept(const std::string& text, const std::string& file, const std::vector<TensorPlan>& plans) {
  ordered_json marks = parse_json<ordered_json>(text, file + ": " + marks_key);
  ordered_json layers = ordered_json::object();
  for (const TensorPlan& plan : plans) {
    std::string layer = plan.tensor->stem;
    if (layer.ends_with('.')) layer.pop_back();
    if (plan.way == Way::copy && plan.tensor->is_quantised() && marks["layers"].contains(layer))
      layers[layer] = marks["layers"][layer];
  }
  if (layers.empty()) return "";
  marks["layers"] = std::move(layers);
  return marks.dump();
}

ConfigJob config_job(const ModelPlan& model) {
  ConfigJob out = {.scheme = model.job.scheme, .activations = model.job.activations, .cache = model.facts.cache};
  out.has_towers = model.facts.source.has_towers();
  bool has_head = false;
  for (const TensorPlan& plan : model.plans) {
    const ModelTensor& t = *plan.tensor;
    const std::string& name = t.whole;
    has_head = has_head || name.ends_with("lm_head.weight");
    // A bias of experts, [E, out], is no layer; a stack, [E, in, out], is.
    const bool is_layer = name.ends_with(".weight") ? t.shape.size() > 1 : t.shape.size() > 2 && is_expert(name);
    if (!is_layer) continue;
    const bool is_fp4 =
        plan.way == Way::quantise || plan.way == Way::carry || (plan.way == Way::copy && t.is_quantised());
    std::vector<std::string>& modules = is_fp4 ? out.quantised : out.left;
    if (modules.empty() || modules.back() != module_of(name)) modules.push_back(module_of(name));
  }
  // A head that is tied to the embedding is a linear layer without a tensor of its own.
  if (!has_head && model.facts.source.config.contains("architectures")) out.left.emplace_back("lm_head");
  return out;
}

std::string text_of(const ordered_json& document) { return document.dump(2) + "\n"; }

}  // namespace

std::map<std::string, std::string> shard_metadata(const std::string& file, const std::vector<TensorPlan>& plans) {
  std::map<std::string, std::string> metadata;
  if (file.ends_with(".safetensors")) metadata = parse_safetensors(open_file(file)).metadata;
  const std::string marks = metadata[marks_key];
  for (const char* key : format_metadata) metadata.erase(key);
  if (!marks.empty())
    if (std::string kept = marks_of_kept(marks, file, plans); !kept.empty()) metadata[marks_key] = std::move(kept);
  metadata.try_emplace("format", "pt");
  return metadata;
}

void plan_folder(ModelPlan& model) {
  const ModelJob& job = model.job;
  if (job.writes_gguf()) return;
  if (!fs::is_directory(job.in)) {
    if (fs::exists(fs::path(job.in).parent_path() / "config.json"))
      model.notes.push_back(
          fmt::format("config.json and tokenizer beside {} were not taken: give the folder to have them", job.in));
    return;
  }
  const ordered_json& config = model.facts.source.config;
  const bool has_config = !config.is_null();
  if (job.scheme != nullptr) {
    const ConfigJob facts = config_job(model);
    if (has_config) model.documents["config.json"] = text_of(quantised_config(config, facts));
    const ordered_json own = model_optimizer_config(facts);
    if (!own.is_null()) model.documents["hf_quant_config.json"] = text_of(own);
  } else if (has_config) {
    std::vector<std::string> decoded;
    bool remains = false;
    for (const TensorPlan& plan : model.plans) {
      if (plan.way == Way::decode) decoded.push_back(module_of(plan.tensor->whole));
      remains = remains || (plan.way == Way::copy && plan.tensor->is_quantised());
    }
    model.documents["config.json"] = text_of(decoded_config(config, decoded, remains));
    ordered_json beside = model.facts.source.optimizer;
    if (remains && beside.is_object() && beside["quantization"].is_object()) {
      leave_out(beside["quantization"], decoded, "exclude_modules");
      model.documents["hf_quant_config.json"] = text_of(beside);
    }
  }
  if (!has_config)
    model.notes.push_back(
        fmt::format("{} has no config.json: engines load the weights written from code alone", job.in));
  SideFiles files = side_files(job.in, job.follow_links);
  if (!files.left.empty())
    model.notes.push_back(fmt::format("not copied (weights in other forms, other results, links to folders): {}",
                                      fmt::join(files.left, ", ")));
  model.side_files = std::move(files.taken);
}

}  // namespace fp4
