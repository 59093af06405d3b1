#include "src/model/model_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "src/arith/report_json.h"
#include "src/arith/spec_text.h"
#include "src/backends/signature.h"
#include "src/files/output.h"
#include "src/model/model_files.h"
#include "src/model/model_stream.h"
#include "src/text/error.h"
#include "src/text/version.h"
#include "src/threads/in_order.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// What a tensor becomes, and behind it what stands beside it in the source and becomes something else.
void add_lines(const ModelPlan& model, const TensorPlan& plan, QuantizeReport report, std::vector<ModelLine>& lines) {
  const ModelTensor& t = *plan.tensor;
  const std::string became = plan.is_fp4()             ? model.job.scheme->name
                             : plan.way == Way::decode ? info(plan.infos[0].dtype).name
                             : plan.way == Way::drop   ? "dropped"
                                                       : "kept";
  lines.push_back({t.name, became, plan.outcome, plan.rule, t.layout_words(), t.shape, t.bytes(), plan.bytes(),
                   std::move(report), plan.group});
  if (plan.way == Way::copy) return;
  for (const TensorPlace& beside : t.companions) {
    const bool is_said = plan.inputs && beside.info.name.ends_with(t.scheme->engine.inputs);
    const bool is_folded = t.columns && beside.info.name == t.columns->info.name;
    const Fate outcome = is_said ? Fate::carried : is_folded ? Fate::folded : Fate::dropped;
    lines.push_back({beside.info.name,
                     is_said ? model.job.scheme->name : row_of(outcome_table, outcome).name,
                     outcome,
                     "belongs to " + t.name,
                     "",
                     beside.info.shape,
                     beside.bytes(),
                     0,
                     {}});
  }
}

// fp4sim.json: what each tensor became, and the SHA-256 of each shard.
ordered_json record_of(const ModelPlan& model, const ModelResult& result) {
  const ModelJob& job = model.job;
  ordered_json tensors = ordered_json::array();
  for (const ModelLine& line : result.lines) tensors.push_back(to_json(line));
  ordered_json document;
  document["scheme"] = job.scheme != nullptr ? ordered_json(job.scheme->name) : ordered_json(nullptr);
  if (job.scheme != nullptr) document["spec"] = to_json(canonical(model.spec));
  document["random"] = {{"seed", job.place.seed}, {"stream", job.place.stream}, {"step", job.place.step}};
  document["signature"] = arithmetic_signature();
  document["version"] = version();
  document["command"] = job.command_line;
  document["tensors"] = std::move(tensors);
  return document;
}

ModelResult write_model(const ModelPlan& model) {
  const ModelJob& job = model.job;
  const auto begin = std::chrono::steady_clock::now();
  StagedFolder folder(job.out, job.force);
  SourceHashes sources(job.command(), job.changed, job.threads);
  ModelStream stream(model);
  ModelResult result;
  result.notes = model.notes;
  std::vector<std::future<std::string>> hashes;  // of the shards, while the next ones are written
  for (const PlannedShard& shard : model.shards) {
    sources.begin({shard.source});
    const std::string path = folder.file(shard.name).string();
    const auto out = std::make_shared<ShardWriter>(path, shard);
    std::vector<Reported> rows;
    try {
      for (const TensorPlan* plan : shard.tensors) {
        Streamed done = stream.write(*plan, *out);
        add_lines(model, *plan, std::move(done.report), result.lines);
        if (done.rows) rows.push_back(std::move(*done.rows));
      }
    } catch (const Error&) {
      sources.end();  // a damaged file is the better reason
      throw;
    }
    out->commit();
    read_back(model, path, rows);
    sources.end();
    hashes.push_back(beside(job.threads, [out] { return out->sha256(); }));
  }
  for (const auto& [name, text] : model.documents) write_file(folder.file(name), text, false);
  for (const char* name : config_files)  // of an older result, which --force replaces
    if (!job.writes_gguf() && !model.documents.contains(name)) folder.drop(name);
  copy_side_files(job.in, model.side_files, folder);
  ordered_json record = record_of(model, result);
  for (size_t i = 0; i < hashes.size(); ++i) record["files"][model.shards[i].name] = {{"sha256", hashes[i].get()}};
  // The command line and rules are the user's bytes.
  write_file(folder.file(model_record), record.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n",
             false);
  folder.commit();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace

ordered_json to_json(const ModelLine& l) {
  ordered_json row = {
      {"tensor", l.tensor}, {"became", l.became},     {"outcome", row_of(outcome_table, l.outcome).name},
      {"shape", l.shape},   {"bytes_in", l.bytes_in}, {"bytes_out", l.bytes_out},
      {"nmse", nullptr}};
  if (!l.rule.empty()) row["rule"] = l.rule;
  if (!l.read_as.empty()) row["read_as"] = l.read_as;
  if (l.group >= 0) row["group"] = l.group;
  if (l.is_converted()) row["nonfinite"] = l.report.nonfinite;
  if (l.report.rows > 0) row.update(report_json(l.report, {"nmse", "decibels", "largest_error", "bits_per_element"}));
  return row;
}

ModelResult convert_model(const ModelJob& job) {
  const ModelPlan model = plan_model(job);
  if (!job.is_dry) return write_model(model);
  ModelResult result;
  result.notes = model.notes;
  for (const TensorPlan& plan : model.plans) add_lines(model, plan, {}, result.lines);
  return result;
}

Dtype decoded_type_of(const std::string& place, const std::string& word) {
  const Dtype type = parse_dtype(place, word);
  if (type != Dtype::f32 && type != Dtype::bf16)
    throw Error(fmt::format("{}: weights are decoded to f32 or bf16, not {}", place, word));
  return type;
}

bool is_model(const std::string& path) {
  if (is_shard(path)) return true;
  if (!fs::is_directory(path) || fs::exists(fs::path(path) / "manifest.json")) return false;
  return std::any_of(fs::directory_iterator(path), fs::directory_iterator(),
                     [&](const fs::directory_entry& e) { return is_shard(e.path().string()); });
}

}  // namespace fp4
