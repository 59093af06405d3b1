#include "src/model/model_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/amax.h"
#include "src/error.h"
#include "src/in_order.h"
#include "src/model/gguf_blocks.h"
#include "src/model/model_plan.h"
#include "src/model/survey.h"
#include "src/output.h"
#include "src/signature.h"
#include "src/spec_text.h"
#include "src/tensor_file/gguf_writer.h"
#include "src/tensor_file/tensor_writer.h"
#include "src/version.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* index_name = "model.safetensors.index.json";
constexpr int64_t band_bytes = int64_t{1} << 20;  // of float32

// A file of the output, in the format that the scheme asks for.
class ShardWriter {
 public:
  ShardWriter(const std::string& path, const std::vector<const Plan*>& plans, const GgufMetadata* metadata) {
    std::vector<TensorInfo> infos;
    std::vector<GgufTensor> tensors;
    for (const Plan* plan : plans)
      for (size_t i = 0; i < plan->infos.size(); ++i) {
        infos.push_back(plan->infos[i]);
        if (metadata != nullptr) tensors.push_back({plan->infos[i].name, plan->types[i], plan->infos[i].shape, 0, 0});
      }
    if (metadata != nullptr)
      gguf_.emplace(path, *metadata, std::move(tensors));
    else
      safetensors_.emplace(path, infos, std::map<std::string, std::string>{{"format", "pt"}});
  }
  void write(const void* data, size_t bytes) { gguf_ ? gguf_->write(data, bytes) : safetensors_->write(data, bytes); }
  void commit() { gguf_ ? gguf_->commit() : safetensors_->commit(); }

 private:
  std::optional<SafetensorsWriter> safetensors_;
  std::optional<GgufWriter> gguf_;
};

// Bytes that a plan's tensors take in the output.
uint64_t written_bytes(const Plan& plan) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < plan.infos.size(); ++i) {
    const TensorInfo& t = plan.infos[i];
    const GgufType* type = plan.types.empty() ? nullptr : plan.types[i];
    bytes += type == nullptr ? byte_count(t.name, t.dtype, t.shape)
                             : element_count(t.name, t.shape) / type->block * type->bytes;
  }
  return bytes;
}

void copy_tensor(const Plan& plan, ShardWriter& out, ProgressCount& progress) {
  std::vector<unsigned char> buffer;
  for (const TensorPlace& part : plan.tensor->parts) {
    OpenOptions options;
    options.entry = part.gguf == nullptr ? part.info.name : "";
    Bytes bytes = open_file(part.file);
    if (part.gguf != nullptr) {
      options.raw_dtype = part.info.dtype;
      options.raw_shape = part.info.shape;
      if (part.gguf->values != GgufValues::plain) options.raw_shape = Shape{part.bytes()};
      bytes = open_part(bytes, part.file + ": " + part.info.name, part.offset, part.bytes());
    }
    TensorReader reader(bytes, options);
    const uint64_t step =
        std::max<uint64_t>(1, static_cast<uint64_t>(band_bytes) / std::max<size_t>(1, reader.row_bytes()));
    for (uint64_t first = 0; first < reader.rows(); first += step) {
      const uint64_t count = std::min(step, reader.rows() - first);
      buffer.resize(static_cast<size_t>(count) * reader.row_bytes());
      reader.read_raw(first, count, buffer.data());
      out.write(buffer.data(), buffer.size());
      progress.add(buffer.size());
    }
  }
}

void decode_tensor(const ModelJob& job, const Plan& plan, ShardWriter& out, ProgressCount& progress) {
  const WeightReader reader(*plan.tensor);
  const int64_t rows = reader.rows(), cols = reader.cols();
  const int64_t band = std::max<int64_t>(1, band_bytes / (4 * std::max<int64_t>(cols, 1)));
  struct Worker {
    WeightReader reader;
    std::vector<float> y = {};
    std::vector<uint16_t> narrow = {};
  };
  const int threads = reader.reads_anywhere() ? std::max(job.threads, 1) : 1;
  std::vector<Worker> workers(static_cast<size_t>(threads), Worker{reader});
  const auto rows_of = [&](int64_t i) { return std::min(band, rows - i * band); };
  const bool is_narrow = plan.infos[0].dtype == Dtype::bf16;
  const auto decode = [&](int64_t i, int j) {
    Worker& w = workers[static_cast<size_t>(j)];
    w.y.resize(static_cast<size_t>(rows_of(i) * cols));
    w.reader.read_rows(i * band, rows_of(i), w.y.data(), 1);
    if (!is_narrow) return;
    w.narrow.resize(w.y.size());
    narrow_to_bf16(w.y.data(), rows_of(i) * cols, w.narrow.data());
  };
  const auto write = [&](int64_t i, int j) {
    const Worker& w = workers[static_cast<size_t>(j)];
    if (is_narrow)
      out.write(w.narrow.data(), w.narrow.size() * 2);
    else
      out.write(w.y.data(), w.y.size() * 4);
    progress.add(plan.tensor->bytes() * static_cast<uint64_t>(rows_of(i)) / static_cast<uint64_t>(rows));
  };
  in_order((rows + band - 1) / band, threads, [](int64_t, int) {}, decode, write);
}

QuantizeReport quantise_tensor(const ModelJob& job, const QuantSpec& spec, uint32_t number, const Plan& plan,
                               ShardWriter& out, ProgressCount& progress) {
  WeightReader reader(*plan.tensor);
  std::vector<uint8_t> scales;  // they follow the codes in the file
  float factor = 1;
  SurveyOptions options;
  options.place = job.place;
  options.place.stream += 128 * number;
  options.backend = job.backend;
  options.threads = job.threads;
  options.take = [&](const Quantized& q) {
    factor = q.tensor_scale[0];
    if (writes_gguf(job)) {
      const std::vector<uint8_t> blocks = blocks_of(job.scheme->gguf, q);
      return out.write(blocks.data(), blocks.size());
    }
    out.write(q.codes.data(), q.codes.size());
    scales.insert(scales.end(), q.scales.begin(), q.scales.end());
  };
  const double share = static_cast<double>(plan.tensor->bytes()) / static_cast<double>(reader.rows() * reader.cols());
  options.progress = [&](uint64_t elements) {
    progress.add(static_cast<uint64_t>(share * static_cast<double>(elements)));
  };
  QuantizeReport report = survey(reader, {spec}, options)[0];
  out.write(scales.data(), scales.size());
  if (job.scheme->meaning == Factor::reciprocal) factor = 1.0f / factor;
  if (spec.has_tensor_scale()) out.write(&factor, 4);
  return report;
}

ordered_json document_of(const ModelJob& job, const QuantSpec& spec, const ModelResult& result) {
  ordered_json tensors = ordered_json::array();
  for (const ModelLine& l : result.lines) {
    ordered_json row = {{"tensor", l.tensor}, {"became", l.became}, {"shape", l.shape}, {"bytes", l.bytes_out}};
    if (l.report.rows > 0) {
      row["nmse"] = l.report.nmse();
      row["decibels"] = l.report.error_squares > 0 ? ordered_json(l.report.decibels()) : nullptr;
      row["largest_error"] = l.report.largest_error;
      row["bits_per_element"] = l.report.bits_per_element();
    }
    tensors.push_back(row);
  }
  ordered_json document;
  document["scheme"] = job.scheme != nullptr ? ordered_json(job.scheme->name) : ordered_json(nullptr);
  if (job.scheme != nullptr) document["spec"] = to_json(canonical(spec));
  document["random"] = {{"seed", job.place.seed}, {"stream", job.place.stream}, {"step", job.place.step}};
  document["signature"] = arithmetic_signature();
  document["version"] = version();
  document["command"] = job.command_line;
  document["tensors"] = tensors;
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

}  // namespace

ModelResult convert_model(const ModelJob& job) {
  const char* command = job.scheme != nullptr ? "quantize" : "dequantize";
  const std::vector<std::string> files = model_files(command, job.in);
  for (const std::string& file : files)
    if (!file.ends_with(".safetensors") && !file.ends_with(".gguf"))
      throw Error(fmt::format("{} {}: models are read from .safetensors, .gguf or a folder of them", command, file));
  const QuantSpec spec = model_spec(job);
  const std::vector<ModelTensor> tensors = model_tensors(files);
  const std::vector<Plan> plans = plans_of(job, spec, tensors);
  uint64_t bytes = 0;
  for (const ModelTensor& t : tensors) bytes += t.bytes();
  const auto name_of = [&](const std::string& file) {
    return fs::path(file).stem().string() + (writes_gguf(job) ? ".gguf" : ".safetensors");
  };
  const bool has_index = files.size() > 1 && !writes_gguf(job);
  std::set<std::string> written;
  for (const std::string& file : files) written.insert(name_of(file));
  if (has_index) written.insert(index_name);
  if (job.force) refuse_remains(job.out, written);

  StagedFolder folder(job.out, job.force);
  ModelResult result;
  const auto begin = std::chrono::steady_clock::now();
  ProgressCount progress(job.progress, bytes);
  ordered_json weight_map = ordered_json::object();
  uint64_t total = 0;
  uint32_t number = 0;
  for (const std::string& file : files) {
    const std::string name = name_of(file);
    std::vector<const Plan*> here;
    for (const Plan& plan : plans)
      if (plan.tensor->file() == file) here.push_back(&plan);
    for (const Plan* plan : here)
      for (const TensorInfo& t : plan->infos) weight_map[t.name] = name;
    std::optional<GgufMetadata> metadata;
    if (writes_gguf(job)) metadata = file.ends_with(".gguf") ? metadata_of(open_file(file)) : plain_metadata();
    ShardWriter out(folder.file(name).string(), here, metadata ? &*metadata : nullptr);
    for (const Plan& plan : plans) {
      if (plan.tensor->file() != file) continue;
      ModelLine line = {plan.tensor->name, "kept", plan.tensor->shape, plan.tensor->bytes(), 0, {}};
      line.bytes_out = written_bytes(plan);
      total += line.bytes_out;
      if (plan.way == Way::copy) copy_tensor(plan, out, progress);
      if (plan.way == Way::decode) {
        decode_tensor(job, plan, out, progress);
        line.became = info(plan.infos[0].dtype).name;
      }
      if (plan.way == Way::quantise) {
        line.report = quantise_tensor(job, spec, number++, plan, out, progress);
        line.became = job.scheme->name;
      }
      result.lines.push_back(line);
    }
    out.commit();
  }
  if (has_index)
    write_file(folder.file(index_name),
               ordered_json{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}.dump(2) + "\n", false);
  write_file(folder.file("fp4sim.json"), document_of(job, spec, result).dump(2) + "\n", false);
  folder.commit();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
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
