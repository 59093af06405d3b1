#include "src/model/model_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/arith/report_json.h"
#include "src/arith/spec_text.h"
#include "src/backends/signature.h"
#include "src/files/gguf_writer.h"
#include "src/files/output.h"
#include "src/model/gguf_engine.h"
#include "src/model/gguf_split.h"
#include "src/model/model_folder.h"
#include "src/model/model_plan.h"
#include "src/model/read_back.h"
#include "src/model/shard_hashes.h"
#include "src/model/shard_writer.h"
#include "src/model/shared_factors.h"
#include "src/model/tensor_write.h"
#include "src/text/error.h"
#include "src/text/version.h"
#include "src/threads/in_order.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* index_name = "model.safetensors.index.json";

ordered_json document_of(const ModelJob& job, const QuantSpec& spec, const ModelResult& result) {
  ordered_json tensors = ordered_json::array();
  for (const ModelLine& l : result.lines) {
    ordered_json row = {{"tensor", l.tensor},
                        {"became", l.became},
                        {"outcome", row_of(outcome_table, l.outcome).name},
                        {"shape", l.shape},
                        {"bytes", l.bytes_out}};
    if (!l.rule.empty()) row["rule"] = l.rule;
    if (l.report.nonfinite > 0) row["nonfinite"] = l.report.nonfinite;
    if (l.report.rows > 0) row.update(report_json(l.report, {"nmse", "decibels", "largest_error", "bits_per_element"}));
    if (l.group >= 0) row["group"] = l.group;
    tensors.push_back(std::move(row));
  }
  ordered_json document;
  document["scheme"] = job.scheme != nullptr ? ordered_json(job.scheme->name) : ordered_json(nullptr);
  if (job.scheme != nullptr) document["spec"] = to_json(canonical(spec));
  document["random"] = {{"seed", job.place.seed}, {"stream", job.place.stream}, {"step", job.place.step}};
  document["signature"] = arithmetic_signature();
  document["version"] = version();
  document["command"] = job.command_line;
  document["tensors"] = std::move(tensors);
  return document;
}

// Throws Error where `out` holds weights or an index that this result would not replace: readers take all of a folder
// for one model.
void refuse_remains(const std::string& out, const std::set<std::string>& written) {
  std::error_code unread;
  for (const fs::directory_entry& entry : fs::directory_iterator(out, unread)) {
    const std::string name = entry.path().filename().string();
    const bool is_part =
        name.ends_with(".safetensors") || name.ends_with(".gguf") || name.ends_with(".safetensors.index.json");
    if (is_part && !written.contains(name))
      throw Error(
          fmt::format("{}: is of another model and would be read as a part of this one; remove it, or choose "
                      "another folder",
                      entry.path().string()));
  }
}

// The layouts of a model are those of bytes in place: two orders of nibbles, and orders of scales of one matrix.
void check_layouts(const ModelJob& job) {
  const auto nibbles = job.layouts.nibbles.value_or(golden::CodeLayout::low_first);
  if (nibbles != golden::CodeLayout::low_first && nibbles != golden::CodeLayout::high_first)
    throw Error(fmt::format("--nibbles: models have low_first or high_first, not {}",
                            row_of(golden::code_layout_table, nibbles).name));
  const bool is_plain = nibbles == golden::CodeLayout::low_first &&
                        job.layouts.scales.value_or(golden::ScaleLayout::linear) == golden::ScaleLayout::linear;
  if (writes_gguf(job) && !is_plain)
    throw Error(fmt::format("--nibbles, --scale-layout: {} keeps both in blocks of its own", job.scheme->name));
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

// A model is never written over what it is read from.
void refuse_source(const ModelJob& job, const std::vector<std::string>& files) {
  std::error_code missing;
  for (const std::string& file : files)
    if (const fs::path folder = fs::absolute(file).parent_path(); fs::equivalent(folder, job.out, missing))
      throw Error(fmt::format("{}: is the folder that {} is read from; choose another one", job.out, file));
}

ModelResult converted(const ModelJob& job, const std::string& command, const std::vector<std::string>& files,
                      SourceHashes& sources, std::vector<std::string> notes) {
  for (const std::string& file : files)
    if (!file.ends_with(".safetensors") && !file.ends_with(".gguf"))
      throw Error(fmt::format("{} {}: models are read from .safetensors, .gguf or a folder of them", command, file));
  if (job.out.ends_with(".gguf") || job.out.ends_with(".safetensors"))
    throw Error(fmt::format("{}: a model is written to a folder; give a name without {}", job.out,
                            fs::path(job.out).extension().string()));
  refuse_source(job, files);
  check_layouts(job);
  const QuantSpec spec = model_spec(job);
  if (writes_gguf(job)) check_sources(job, files);
  const bool is_split = writes_gguf(job) && check_split(job.in, files);
  std::vector<ModelTensor> tensors = model_tensors(files, job.scheme == nullptr ? job.layouts : Layouts{});
  check_names(files, tensors);
  set_orientations(job, tensors);
  const std::vector<Plan> plans = plans_of(job, spec, tensors);
  if (writes_gguf(job)) check_factors(job, files, plans, notes);
  if (job.scheme == nullptr &&
      std::none_of(plans.begin(), plans.end(), [](const Plan& p) { return p.outcome == Outcome::decoded; }))
    throw Error(fmt::format("{} {}: no FP4 or FP8 weight in {} tensors: there is nothing to decode", command, job.in,
                            tensors.size()));
  uint64_t bytes = 0, tensors_written = 0;
  for (const ModelTensor& t : tensors) bytes += t.bytes();
  for (const Plan& plan : plans) tensors_written += plan.infos.size();
  const auto name_of = [&](const std::string& file) {
    return fs::path(file).stem().string() + (writes_gguf(job) ? ".gguf" : ".safetensors");
  };
  const bool has_index = files.size() > 1 && !writes_gguf(job);
  std::set<std::string> written;
  for (const std::string& file : files)
    if (!written.insert(name_of(file)).second)
      throw Error(fmt::format("{} {}: two shards are called {}; rename one", command, job.in, name_of(file)));
  if (has_index) written.insert(index_name);
  if (job.force) refuse_remains(job.out, written);

  std::map<std::string, std::vector<const Plan*>> plans_of_file;
  for (const Plan& plan : plans) plans_of_file[plan.tensor->file()].push_back(&plan);
  StagedFolder folder(job.out, job.force);
  ModelResult result;
  const auto begin = std::chrono::steady_clock::now();
  ProgressCount progress(job.progress, bytes);
  nlohmann::json weight_map = nlohmann::json::object();
  uint64_t total = 0;
  uint32_t number = 0;
  SharedFactors shared(job, spec, plans);
  for (const std::string& note : shared.notes()) notes.push_back(note);
  result.notes = std::move(notes);
  std::vector<std::future<std::string>> hashes;  // of the shards in `hashed`, while the next ones are written
  std::vector<std::string> hashed;
  for (const std::string& file : files) {
    sources.begin({file});
    const std::string name = name_of(file), path = folder.file(name).string();
    const std::vector<const Plan*>& here = plans_of_file[file];
    for (const Plan* plan : here)
      for (const TensorInfo& t : plan->infos)
        if (!weight_map.emplace(t.name, name).second)
          throw Error(fmt::format("{}: {}: the output has a tensor {} already", file, plan->tensor->name, t.name));
    std::optional<GgufMetadata> metadata;
    if (writes_gguf(job)) metadata = with_file_type(metadata_of(open_file(file)), job.scheme->gguf);
    if (is_split) set_split_tensors(*metadata, file, tensors_written);
    auto writer = metadata ? std::make_shared<ShardWriter>(path, here, *metadata)
                           : std::make_shared<ShardWriter>(path, here, shard_metadata(file, plans));
    ShardWriter& out = *writer;
    std::vector<Reported> reported;
    for (const Plan* at : here) {
      const Plan& plan = *at;
      const ModelTensor& t = *plan.tensor;
      ModelLine line = {t.name,  "kept",    plan.outcome,        plan.rule, t.layout_words(),
                        t.shape, t.bytes(), written_bytes(plan), {}};
      total += line.bytes_out;
      switch (plan.way) {
        case Way::copy: copy_tensor(plan, out, progress); break;
        case Way::decode:
          line.report.nonfinite = decode_tensor(job, plan, out, progress);
          line.became = info(plan.infos[0].dtype).name;
          break;
        case Way::carry:
          reported.push_back(rows_to_read_back(plan));
          line.report.nonfinite = carry_tensor(job, plan, out, progress);
          line.became = job.scheme->name;
          break;
        case Way::quantise:
          reported.push_back(rows_to_read_back(plan));
          line.report = quantise_tensor(job, spec, number++, plan, shared.amax(plan), out, progress, reported.back());
          line.group = shared.group(plan);
          line.became = job.scheme->name;
          break;
      }
      result.lines.push_back(line);
      if (plan.way == Way::copy) continue;
      for (const TensorPlace& beside : t.companions) {
        const bool is_said = plan.inputs && beside.info.name.ends_with(engine_rules_of(*t.scheme).inputs);
        result.lines.push_back({beside.info.name,
                                is_said ? job.scheme->name : "dropped",
                                is_said ? Outcome::carried : Outcome::dropped,
                                "belongs to " + t.name,
                                "",
                                beside.info.shape,
                                beside.bytes(),
                                0,
                                {}});
      }
    }
    out.commit();
    read_back(job, path, reported);
    sources.end();
    hashes.push_back(beside(job.threads, [writer] { return writer->sha256(); }));
    hashed.push_back(name);
  }
  if (has_index)
    write_file(folder.file(index_name),
               ordered_json{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}.dump(2) + "\n", false);
  const FolderNotes more = write_model_folder(job, plans, folder);
  result.notes.insert(result.notes.end(), more.begin(), more.end());
  ordered_json document = document_of(job, spec, result);
  for (size_t i = 0; i < hashes.size(); ++i) document["files"][hashed[i]] = {{"sha256", hashes[i].get()}};
  // The command line and rules are the user's bytes.
  const auto replace = ordered_json::error_handler_t::replace;
  write_file(folder.file(model_record), document.dump(2, ' ', false, replace) + "\n", false);
  folder.commit();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace

ModelResult convert_model(const ModelJob& job) {
  const std::string command = job.scheme != nullptr ? "quantize" : "dequantize";
  std::vector<std::string> notes;
  const std::vector<std::string> files = model_files(command, job.in, &notes);
  SourceHashes sources(command, job.changed, job.threads);
  try {
    return converted(job, command, files, sources, std::move(notes));
  } catch (const Error& error) {
    // A damaged file is the better reason; a wrong option is none of it.
    const std::string why = error.what();
    if (job.changed || why.starts_with("--")) throw;
    std::vector<std::string> named;
    for (const std::string& file : files)
      if (why.find(file) != std::string::npos) named.push_back(file);
    sources.begin(named.empty() ? files : named);
    sources.end();
    throw;
  }
}

Dtype decoded_type_of(const std::string& place, const std::string& word) {
  const Dtype type = parse_dtype(place, word);
  if (type != Dtype::f32 && type != Dtype::bf16)
    throw Error(fmt::format("{}: weights are decoded to f32 or bf16, not {}", place, word));
  return type;
}

bool is_model(const std::string& path) {
  const auto is_shard = [](const std::string& file) {
    return file.ends_with(".safetensors") || file.ends_with(".gguf");
  };
  if (is_shard(path)) return true;
  if (!fs::is_directory(path) || fs::exists(fs::path(path) / "manifest.json")) return false;
  return std::any_of(fs::directory_iterator(path), fs::directory_iterator(),
                     [&](const fs::directory_entry& e) { return is_shard(e.path().string()); });
}

}  // namespace fp4
