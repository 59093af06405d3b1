#include "src/model/model_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "src/arith/spec_text.h"
#include "src/files/gguf.h"
#include "src/model/keep_rules.h"
#include "src/model/model_files.h"
#include "src/model/weight_names.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;

// Throws Error where `out` holds weights or an index that this result would not replace: readers take all of a folder
// for one model.
void refuse_remains(const std::string& out, const std::set<std::string>& written) {
  std::error_code unread;
  for (const fs::directory_entry& entry : fs::directory_iterator(out, unread)) {
    const std::string name = entry.path().filename().string();
    const bool is_part = is_shard(name) || name.ends_with(".safetensors.index.json");
    if (is_part && !written.contains(name))
      throw Error(
          fmt::format("{}: is of another model and would be read as a part of this one; remove it, or choose "
                      "another folder",
                      entry.path().string()));
  }
}

// What is asked, before a file is opened: kinds of files, a folder that is not the source, layouts of bytes in place.
void check_job(const ModelJob& job, const std::vector<std::string>& files) {
  std::error_code missing;
  if (is_shard(job.out))
    throw Error(fmt::format("{}: a model is written to a folder; give a name without {}", job.out,
                            fs::path(job.out).extension().string()));
  for (const std::string& file : files) {
    if (!is_shard(file))
      throw Error(
          fmt::format("{} {}: models are read from .safetensors, .gguf or a folder of them", job.command(), file));
    if (fs::equivalent(fs::absolute(file).parent_path(), job.out, missing))
      throw Error(fmt::format("{}: is the folder that {} is read from; choose another one", job.out, file));
  }
  const auto nibbles = job.layouts.nibbles.value_or(golden::CodeLayout::low_first);
  if (nibbles != golden::CodeLayout::low_first && nibbles != golden::CodeLayout::high_first)
    throw Error(fmt::format("--nibbles: models have low_first or high_first, not {}",
                            row_of(golden::code_layout_table, nibbles).name));
  const bool is_plain = nibbles == golden::CodeLayout::low_first &&
                        job.layouts.scales.value_or(golden::ScaleLayout::linear) == golden::ScaleLayout::linear;
  if (!is_plain && job.scheme != nullptr && (job.writes_gguf() || job.scheme->is_fp8()))
    throw Error(fmt::format("--nibbles, --scale-layout: {} has orders of its own", job.scheme->name));
  if (!job.writes_gguf()) return;
  for (const std::string& file : files)
    if (!file.ends_with(".gguf"))
      throw Error(
          fmt::format("quantize {0}: --scheme {1} takes GGUF, and {2} is none: llama.cpp makes one with "
                      "`convert_hf_to_gguf.py FOLDER --outfile m.gguf`, of which `fp4sim quantize m.gguf "
                      "--scheme {1} --out OUT`{3} makes FP4",
                      job.in, job.scheme->name, file,
                      job.scheme->gguf == GgufValues::nvfp4
                          ? ""
                          : " (or, of experts alone, `llama-quantize m.gguf OUT.gguf MXFP4_MOE`)"));
}

// The job's spec; Error when the scheme cannot hold it. A default one without a scheme.
QuantSpec model_spec(const ModelJob& job) {
  if (job.scheme == nullptr) return {};
  const QuantSpec own = quant_spec_from_words(job.scheme->spec, job.scheme->name);
  const QuantSpec s = quant_spec_from_words(job.words.empty() ? job.scheme->spec : job.words, "--spec");
  const bool has_factor = job.scheme->meaning != Factor::one;
  const bool may_lack =
      has_factor && job.scheme->gguf != GgufValues::plain;  // STEM.scale is written where there is one
  const bool fits = s.element == own.element && !s.choice.is_on && s.scale == own.scale && s.block == own.block &&
                    (s.tensor_scale == (has_factor ? TensorScale::current : TensorScale::none) ||
                     (may_lack && s.tensor_scale == TensorScale::none)) &&
                    s.prescale == 1.0f && s.scale_rule != ScaleRule::encode;
  if (fits) return s;
  throw Error(
      fmt::format("--spec: {} holds element {}, scale {}, block {}, tensor_scale {}, prescale 1 and scales, not "
                  "their inverses; '{}' has others",
                  job.scheme->name, info_of(own.element).name, row_of(scale_table, own.scale).name, job.scheme->block,
                  has_factor ? "current" : "none", job.words));
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

// Index and record are JSON, which is UTF-8; names of files and of a GGUF's tensors are any bytes.
void check_names(const std::vector<std::string>& files, const std::vector<ModelTensor>& tensors) {
  for (const std::string& file : files)
    if (!is_utf8(fs::path(file).filename().string()))
      throw Error(fmt::format("{}: the name of the file is not UTF-8, which {} needs; rename it", file, model_record));
  for (const ModelTensor& t : tensors)
    if (!is_utf8(t.name))
      throw Error(
          fmt::format("{}: the name of tensor '{}' is not UTF-8, which {} needs", t.file(), t.name, model_record));
}

// The model's tensors. Where a file cannot be read, its hash is looked at first.
std::vector<ModelTensor> opened(const ModelJob& job, const std::vector<std::string>& files) {
  const Layouts told = job.scheme == nullptr ? job.layouts : Layouts{};
  try {
    return model_tensors(files, told);
  } catch (const Error&) {
    for (const std::string& file : files) {
      try {
        model_tensors({file}, told);
      } catch (const Error&) {
        if (!job.changed) check_hashes(job.command(), {file});
      }
    }
    throw;
  }
}

// Plans of all tensors. A weight whose parts do not fit may be one whose file was damaged.
std::vector<TensorPlan> planned(const ModelPlan& model) {
  try {
    return plans_of(model.job, model.spec, model.facts, model.tensors);
  } catch (const Error&) {
    std::set<std::string> broken;
    for (const ModelTensor& t : model.tensors)
      if (!t.fault.empty() || !t.unknown.empty())
        for (const TensorPlace& part : t.parts) broken.insert(part.file);
    if (!model.job.changed) check_hashes(model.job.command(), {broken.begin(), broken.end()});
    throw;
  }
}

// What the source's configuration says and the one that is written cannot.
void check_facts(const ModelJob& job, const PlanFacts& facts) {
  const SourceConfig& source = facts.source;
  const std::string type = source.model_type();
  if (job.scheme != nullptr && job.scheme->engine.takes == Takes::stacks && !type.empty() && type != "gpt_oss")
    throw Error(
        fmt::format("{}: model_type is {}; engines load {} of gpt_oss alone", source.file, type, job.scheme->name));
  if (job.allow_left) return;
  const char* end = "; --allow-left goes on without";
  if (source.is_rotated())
    throw Error(fmt::format("{}: transform_config: the model's weights are turned, and nothing that is written says "
                            "that inputs have to be{}",
                            source.file, end),
                Error::failed);
  if (!facts.cache.refusal.empty())
    throw Error(fmt::format("{}: the KV cache is quantised: {}{}", source.file, facts.cache.refusal, end),
                Error::failed);
}

// What happened to weights and caches that a person should hear.
void note_facts(ModelPlan& model) {
  size_t folded = 0, scales = 0, dropped = 0, experts = 0;
  for (const TensorPlan& plan : model.plans) {
    folded += plan.tensor->columns && plan.way != Way::copy ? 1 : 0;
    dropped += plan.way == Way::drop ? 1 : 0;
    experts += plan.is_fp4() && is_expert(plan.tensor->whole) ? 1 : 0;
    const bool is_scale = plan.way == Way::copy && !plan.tensor->is_quantised();
    scales += is_scale && cache_row_of(plan.tensor->name) != nullptr ? 1 : 0;
  }
  if (folded > 0)
    model.notes.push_back(fmt::format("{} weights are multiplied by their pre_quant_scale{}", folded,
                                      model.job.scheme != nullptr ? " and quantised anew" : ""));
  const std::string type = model.facts.source.model_type();
  if (experts > 0 && !type.empty() && !model.job.writes_gguf())
    model.notes.push_back(experts_note(model.job.scheme->name, type));
  if (dropped > 0) model.notes.push_back(fmt::format("{} scales of the KV cache are left out", dropped));
  if (scales > 0 && model.facts.source.cache().is_null())
    model.notes.push_back(
        fmt::format("{} scales of a KV cache (k_scale, v_scale) stay; config.json does not say its format", scales));
}

// One file of the output for each of the source, and the index of several.
void plan_shards(ModelPlan& model, const std::vector<std::string>& files) {
  const ModelJob& job = model.job;
  std::map<std::string, size_t> number;
  std::set<std::string> written;
  for (const std::string& file : files) {
    number[file] = model.shards.size();
    model.shards.push_back({file, fs::path(file).stem().string() + (job.writes_gguf() ? ".gguf" : ".safetensors")});
    if (!written.insert(model.shards.back().name).second)
      throw Error(
          fmt::format("{} {}: two shards are called {}; rename one", job.command(), job.in, model.shards.back().name));
  }
  nlohmann::json weight_map = nlohmann::json::object();
  std::uint64_t bytes = 0, tensors = 0;
  for (const TensorPlan& plan : model.plans) {
    PlannedShard& shard = model.shards[number.at(plan.tensor->file())];
    shard.tensors.push_back(&plan);
    bytes += plan.bytes();
    tensors += plan.infos.size();
    for (const TensorInfo& t : plan.infos)
      if (!weight_map.emplace(t.name, shard.name).second)
        throw Error(fmt::format("{}: {}: the output has a tensor {} already", shard.source, plan.tensor->name, t.name));
  }
  for (PlannedShard& shard : model.shards) {
    if (!job.writes_gguf()) {
      shard.metadata = shard_metadata(shard.source, model.plans);
      continue;
    }
    shard.gguf = with_file_type(metadata_of(open_file(shard.source)), job.scheme->gguf);
    set_split_tensors(*shard.gguf, shard.source, tensors);
  }
  const bool may_have_index = !job.writes_gguf() && std::filesystem::is_directory(job.in);
  const auto given = may_have_index ? index_of(job.in) : std::nullopt;
  if (given || (files.size() > 1 && !job.writes_gguf())) {
    const std::string name = given.value_or("model.safetensors.index.json");
    const nlohmann::ordered_json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", weight_map}};
    model.documents[name] = index.dump(2) + "\n";
    written.insert(name);
  }
  if (job.force) refuse_remains(job.out, written);
}

}  // namespace

ModelPlan plan_model(const ModelJob& job) {
  ModelPlan model(job);
  const std::vector<std::string> files = model_files({job.command(), job.in, job.follow_links}, &model.notes);
  check_job(job, files);
  model.spec = model_spec(job);
  model.tensors = opened(job, files);
  check_names(files, model.tensors);
  model.facts.source = source_config_of(job.in);
  model.facts.cache = cache_entries_of(job, model.facts.source);
  check_facts(job, model.facts);
  set_orientations(job, model.tensors);
  model.plans = planned(model);
  if (job.scheme == nullptr && std::none_of(model.plans.begin(), model.plans.end(),
                                            [](const TensorPlan& p) { return p.outcome == Fate::decoded; }))
    throw Error(fmt::format("{} {}: no FP4 or FP8 weight in {} tensors: there is nothing to decode", job.command(),
                            job.in, model.tensors.size()));
  if (job.writes_gguf()) check_factors(job, files, model.plans, model.notes);
  note_facts(model);
  set_groups(model);
  carry_exactly(model);
  plan_shards(model, files);
  plan_folder(model);
  return model;
}

}  // namespace fp4
