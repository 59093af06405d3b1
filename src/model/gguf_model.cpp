#include "src/model/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "src/model/gguf_complete.h"
#include "src/model/gguf_tokenizer.h"
#include "src/text/error.h"
#include "src/text/json_reader.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;

// One tensor of a stack's experts, in their order; they have one shape and one type.
ModelTensor stack_of(const std::string& whole, std::map<int, ModelTensor> experts) {
  ModelTensor stack;
  const ModelTensor& first = experts.begin()->second;
  if (experts.begin()->first != 0 || experts.rbegin()->first + 1 != static_cast<int>(experts.size()))
    throw Error(fmt::format("{}: {}: {} experts, the last of which is {}: some are missing", first.file(), whole,
                            experts.size(), experts.rbegin()->first));
  stack.name = first.name;
  stack.stem = first.stem;
  stack.whole = whole;
  stack.scheme = first.scheme;
  stack.fp8 = first.fp8;
  stack.fault = first.fault;
  stack.shape = first.shape;
  stack.shape.insert(stack.shape.begin(), experts.size());
  for (auto& [number, expert] : experts) {
    if (expert.shape != first.shape || expert.scheme_name() != first.scheme_name() || expert.type() != first.type())
      throw Error(fmt::format("{}: {}: is {} {}, and {} is {} {}", expert.file(), expert.name, expert.type(),
                              shape_text(expert.shape), first.name, first.type(), shape_text(first.shape)));
    if (stack.fault.empty()) stack.fault = expert.fault;
    stack.parts.insert(stack.parts.end(), expert.parts.begin(), expert.parts.end());
    if (expert.scheme != nullptr && expert.scheme->meaning != Factor::one)
      stack.factor_rows.push_back(matrix_rows(expert.shape));
    stack.view.members.push_back(expert);
  }
  return stack;
}

}  // namespace

std::optional<GgufModel> gguf_model_of(const ModelJob& job, const std::vector<std::string>& files) {
  if (job.scheme == nullptr || job.scheme->gguf == GgufValues::plain || !fs::is_directory(job.in)) return {};
  GgufModel model;
  model.file = (fs::path(job.in) / "config.json").string();
  const bool is_safetensors =
      std::all_of(files.begin(), files.end(), [](const std::string& f) { return f.ends_with(".safetensors"); });
  if (!is_safetensors || !fs::is_regular_file(model.file)) return {};
  model.config =
      parse_json<nlohmann::ordered_json>(read_text_file(model.file, "configuration of the model").text, model.file);
  model.architecture = &gguf_architecture_of(model.file, model.config);
  return model;
}

std::vector<ModelTensor> gguf_tensors(const GgufModel& model, std::vector<ModelTensor> tensors) {
  std::map<std::string, std::map<int, ModelTensor>> stacks;
  for (const ModelTensor& t : tensors) {
    const GgufName name = gguf_name_of(*model.architecture, model.config, t.whole);
    if (name.expert >= 0) stacks[name.name].emplace(name.expert, t);
  }
  std::vector<ModelTensor> out;
  for (ModelTensor& t : tensors) {
    const GgufName name = gguf_name_of(*model.architecture, model.config, t.whole);
    if (name.name.empty()) continue;
    if (name.expert >= 0) {  // where the first of them stands
      const auto at = stacks.find(name.name);
      if (at == stacks.end()) continue;
      out.push_back(stack_of(name.name, std::move(at->second)));
      stacks.erase(at);
      continue;
    }
    t.whole = name.name;
    t.view.heads = name.heads;
    t.view.add = name.adds_one ? 1.0f : 0.0f;
    // Qwen's gate of shared experts is one row, which llama.cpp takes as a vector.
    if (t.shape.size() == 2 && t.shape[0] == 1 && name.name.ends_with("_shexp.weight")) t.shape = {t.shape[1]};
    out.push_back(std::move(t));
  }
  check_complete(model, out);
  if (std::vector<float> factors = rotary_factors(model.config); !factors.empty()) {
    ModelTensor made;
    made.name = made.stem = made.whole = "rope_freqs.weight";
    made.shape = {factors.size()};
    made.parts = {{model.file, {made.name, Dtype::f32, made.shape}}};
    made.view.values = std::move(factors);
    out.push_back(std::move(made));
  }
  return out;
}

void check_factors(const ModelJob& job, const std::vector<std::string>& files, const GgufModel* model,
                   const std::vector<Plan>& plans, std::vector<std::string>& notes) {
  const auto first = std::find_if(plans.begin(), plans.end(), [](const Plan& p) { return p.has_factor; });
  if (first == plans.end()) return;
  constexpr size_t type_and_length = 12;  // in front of a text
  std::string name;
  if (model != nullptr)
    name = model->architecture->doc;
  else if (files.front().ends_with(".gguf"))
    for (const auto& [key, value] : entries_of(open_file(files.front())))
      if (key == "general.architecture" && value.size() > type_and_length) name = value.substr(type_and_length);
  if (name.empty() || name == "unknown") return;
  const auto* row = std::find_if(std::begin(gguf_architectures), std::end(gguf_architectures),
                                 [&](const GgufArchitecture& a) { return name == a.doc; });
  if (row == std::end(gguf_architectures)) {
    notes.push_back(
        fmt::format("whether llama.cpp multiplies by the factors of tensors (STEM.scale) in models of {} is "
                    "not known; --spec {} writes none",
                    name, job.scheme->spec));
  } else if (!row->takes_factors) {
    throw Error(
        fmt::format("{}: {} has a factor, and llama.cpp computes {} as if it were 1; --spec {} quantises without",
                    first->tensor->file(), first->tensor->name, name, job.scheme->spec));
  }
}

GgufMetadata gguf_metadata(const ModelJob& job, const GgufModel& model) {
  GgufEntries entries;
  const std::string name = fs::weakly_canonical(job.in).filename().string();
  put_parameters(entries, *model.architecture, model.config, model.file, name);
  put_tokenizer(entries, job.in, model.config, model.config["vocab_size"].get<std::uint64_t>());
  return entries.metadata();
}

}  // namespace fp4
