#include "src/model/model_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/amax.h"
#include "src/error.h"
#include "src/in_order.h"
#include "src/model/decode.h"
#include "src/model/gguf_blocks.h"
#include "src/model/gguf_model.h"
#include "src/model/model_folder.h"
#include "src/model/model_plan.h"
#include "src/model/shard_hashes.h"
#include "src/model/shared_factors.h"
#include "src/model/survey.h"
#include "src/output.h"
#include "src/sha256.h"
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
  ShardWriter(const std::string& path, const std::vector<const Plan*>& plans, const std::string& source,
              const GgufMetadata* metadata) {
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
      safetensors_.emplace(path, infos, shard_metadata(source));
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
  std::vector<TensorPlace> parts = plan.tensor->parts;
  parts.insert(parts.end(), plan.tensor->companions.begin(), plan.tensor->companions.end());
  for (const TensorPlace& part : parts) {
    TensorReader reader = reader_of(part);
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

// Returns how many values are not finite.
int64_t decode_tensor(const ModelJob& job, const Plan& plan, ShardWriter& out, ProgressCount& progress) {
  const WeightReader reader(*plan.tensor);
  const int64_t rows = reader.rows(), cols = reader.cols();
  const int64_t band = std::max<int64_t>(1, band_bytes / (4 * std::max<int64_t>(cols, 1)));
  struct Worker {
    WeightReader reader;
    std::vector<float> y = {};
    std::vector<uint16_t> narrow = {};
    int64_t nonfinite = 0;
  };
  const int64_t bands = (rows + band - 1) / band;
  const auto threads =
      static_cast<int>(std::clamp<int64_t>(reader.reads_anywhere() ? job.threads : 1, 1, std::max<int64_t>(bands, 1)));
  std::vector<Worker> workers(static_cast<size_t>(threads), Worker{reader});
  const auto rows_of = [&](int64_t i) { return std::min(band, rows - i * band); };
  const bool is_narrow = plan.infos[0].dtype == Dtype::bf16;
  const auto decode = [&](int64_t i, int j) {
    Worker& w = workers[static_cast<size_t>(j)];
    w.y.resize(static_cast<size_t>(rows_of(i) * cols));
    w.reader.read_rows(i * band, rows_of(i), w.y.data(), 1);
    for (const float y : w.y) w.nonfinite += (bits_of(y) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
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
  in_order(
      bands, threads, [](int64_t, int) {}, decode, write);
  int64_t nonfinite = 0;
  for (const Worker& w : workers) nonfinite += w.nonfinite;
  return nonfinite;
}

// Codes band by band, then scales and factors, in the layouts and with the factor of the scheme.
class SchemeWriter {
 public:
  SchemeWriter(const ModelJob& job, const Plan& plan, ShardWriter& out) : job_(job), plan_(plan), out_(out) {}

  void take(const Quantized& q) {
    if (writes_gguf(job_)) {
      const std::vector<uint8_t> blocks = blocks_of(job_.scheme->gguf, q);
      return out_.write(blocks.data(), blocks.size());
    }
    if (job_.layouts.nibbles == golden::CodeLayout::high_first) {
      swapped_ = q.codes;
      for (uint8_t& byte : swapped_) byte = static_cast<uint8_t>(byte >> 4 | byte << 4);
      out_.write(swapped_.data(), swapped_.size());
    } else {
      out_.write(q.codes.data(), q.codes.size());
    }
    scales_.insert(scales_.end(), q.scales.begin(), q.scales.end());
  }

  // One factor for all rows, or one for each run of them.
  void finish(std::vector<float> factors) {
    const auto layout = job_.layouts.scales.value_or(golden::ScaleLayout::linear);
    if (layout != golden::ScaleLayout::linear && !scales_.empty()) {
      const Shape& shape = plan_.tensor->shape;
      scales_ = golden::to_layout(layout, scales_, static_cast<int64_t>(matrix_rows(shape)),
                                  static_cast<int64_t>(matrix_cols(shape)) / job_.scheme->block);
    }
    out_.write(scales_.data(), scales_.size());
    if (plan_.has_factor) {
      const Shape& shape = plan_.infos[plan_.infos.size() - (plan_.inputs ? 2 : 1)].shape;
      factors.resize(element_count("factor", shape), factors[0]);  // a stack's experts share it
      out_.write(factors.data(), factors.size() * sizeof(float));
    }
    if (plan_.inputs) out_.write(&*plan_.inputs, sizeof(float));
  }

 private:
  const ModelJob& job_;
  const Plan& plan_;
  ShardWriter& out_;
  std::vector<uint8_t> scales_ = {}, swapped_ = {};
};

// A factor as the scheme says it; Error where it cannot.
float factor_for(const ModelJob& job, const Plan& plan, Factor meaning, float factor, float top) {
  const float said = factor_in(job.scheme->meaning, meaning, factor, top);
  if (std::isfinite(said) && said > 0) return said;
  throw Error(fmt::format("{}: {}: {} cannot say the factor {} of this tensor (it would be {})", plan.tensor->file(),
                          plan.tensor->name, job.scheme->name, factor, said));
}

// What is known of the rows that are read back: their loss as it was reported.
struct Reported {
  const Plan* plan;
  int64_t first = 0, count = 0;
  std::vector<RowStatistics> rows = {};  // of quantised ones
};

// The rows in the middle of a tensor, about 64 K elements: an offset that drifts shows there.
Reported rows_to_read_back(const Plan& plan) {
  constexpr int64_t elements = int64_t{1} << 16;
  const auto rows = static_cast<int64_t>(matrix_rows(plan.tensor->shape));
  const auto cols = static_cast<int64_t>(matrix_cols(plan.tensor->shape));
  const int64_t count = std::min(std::max<int64_t>(elements / std::max<int64_t>(cols, 1), 1), rows);
  return {&plan, (rows - count) / 2, count};
}

QuantizeReport quantise_tensor(const ModelJob& job, const QuantSpec& spec, uint32_t number, const Plan& plan,
                               std::optional<float> amax, ShardWriter& out, ProgressCount& progress,
                               Reported& reported) {
  WeightReader reader(*plan.tensor);
  const Dispatcher backend(job.backend);
  SchemeWriter writer(job, plan, out);
  float factor = 1;
  SurveyOptions options;
  options.place = job.place;
  options.place.stream += 128 * number;
  options.backend = job.backend;
  options.threads = job.threads;
  options.amax = amax;
  options.decode = [&](const Quantized& q, float* y, int threads) { decode_weight(backend, q, y, threads); };
  options.take = [&](const Quantized& q) {
    factor = q.tensor_scale[0];
    writer.take(q);
  };
  options.rows = [&](int64_t first, const std::vector<RowStatistics>& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t row = first + static_cast<int64_t>(i);
      if (row >= reported.first && row < reported.first + reported.count) reported.rows.push_back(rows[i]);
    }
  };
  const double share = static_cast<double>(plan.tensor->bytes()) / static_cast<double>(reader.rows() * reader.cols());
  options.progress = [&](uint64_t elements) {
    progress.add(static_cast<uint64_t>(share * static_cast<double>(elements)));
  };
  const QuantizeReport report = survey(reader, {spec}, options)[0];
  if (plan.has_factor) factor = factor_for(job, plan, meaning_of(spec.decode), factor, resolve(spec).top());
  writer.finish({factor});
  return report;
}

// Codes and scales as they are; returns how many values are not finite.
int64_t carry_tensor(const ModelJob& job, const Plan& plan, ShardWriter& out, ProgressCount& progress) {
  WeightReader reader(*plan.tensor);
  SchemeWriter writer(job, plan, out);
  const int64_t band = std::max<int64_t>(1, band_bytes / std::max<int64_t>(reader.cols(), 1));
  const CheckpointScheme& from = *plan.tensor->scheme;
  const Quantizer resolved = resolve(reading_spec(from));
  const uint64_t row_bytes = plan.tensor->bytes() / static_cast<uint64_t>(std::max<int64_t>(reader.rows(), 1));
  int64_t nonfinite = 0;
  for (int64_t first = 0; first < reader.rows(); first += band) {
    const int64_t count = std::min(band, reader.rows() - first);
    const Quantized& q = reader.read_quantized(first, count);
    for (const uint8_t scale : q.scales) nonfinite += is_nan(decode(resolved.scale, scale)) ? from.block : 0;
    writer.take(q);
    progress.add(row_bytes * static_cast<uint64_t>(count));
  }
  std::vector<float> factors;
  for (const float f : reader.factors())
    factors.push_back(
        plan.has_factor
            ? factor_for(job, plan, from.meaning == Factor::one ? Factor::direct : from.meaning, f, resolved.top())
            : f);
  writer.finish(factors);
  return nonfinite;
}

// Reads rows of every weight from the bytes of a shard that is written, by the scheme's own reader, and compares what
// they lost with what the quantiser reported of the same rows. Error (exit code 1) where that differs: the file does
// not say what it should.
void read_back(const ModelJob& job, const std::string& path, const std::vector<Reported>& written) {
  if (written.empty()) return;
  std::map<std::string, ModelTensor> tensors;
  for (ModelTensor& t : model_tensors({path}, job.layouts)) {
    std::string name = t.name;
    tensors.emplace(std::move(name), std::move(t));
  }
  std::vector<float> x, y;
  for (const Reported& r : written) {
    if (r.count == 0) continue;
    const std::string place = fmt::format("{}: {}", r.plan->tensor->file(), r.plan->tensor->name);
    const auto fail = [&](const std::string& why) {
      throw Error(fmt::format("{}: read back from what was written: {}; nothing is kept", place, why), 1);
    };
    const auto at = tensors.find(r.plan->infos[0].name);
    if (at == tensors.end() || at->second.scheme == nullptr || !at->second.fault.empty())
      fail(fmt::format("no {} weight {}{}", job.scheme->name, r.plan->infos[0].name,
                       at != tensors.end() && !at->second.fault.empty() ? ": " + at->second.fault : ""));
    if (std::string_view(at->second.scheme->name) != job.scheme->name)
      fail(fmt::format("a weight of {}, not of {}", at->second.scheme->name, job.scheme->name));
    WeightReader source(*r.plan->tensor), file(at->second);
    if (source.rows() != file.rows() || source.cols() != file.cols())
      fail(fmt::format("{} x {} elements, not {} x {}", file.rows(), file.cols(), source.rows(), source.cols()));
    x.resize(static_cast<size_t>(r.count * source.cols()));
    y.resize(x.size());
    source.read_rows(r.first, r.count, x.data(), 1);
    file.read_rows(r.first, r.count, y.data(), 1);
    Quantized q = file.read_quantized(r.first, r.count);
    QuantizeReport found, expected;
    add_rows(found, row_statistics(q, view_of(x.data(), r.count, source.cols()), y.data(), 1));
    if (r.plan->way == Way::carry) {
      const Quantized& own = source.read_quantized(r.first, r.count);
      if (own.codes != q.codes || own.scales != q.scales) fail("other codes or scales than the source has");
      if (found.nmse() > 1e-12) fail(fmt::format("NMSE {:.3g} against the source, with the same codes", found.nmse()));
      continue;
    }
    add_rows(expected, r.rows);
    // The spec's order of operations and the scheme's differ by an ulp of a value here and there.
    const bool is_same =
        found.nonfinite == expected.nonfinite && found.squares == expected.squares &&
        (std::abs(found.nmse() - expected.nmse()) <= 1e-5 * expected.nmse() + 1e-12 || !found.has_finite());
    if (!is_same)
      fail(fmt::format("NMSE {:.6g} in rows {} to {}, {:.6g} was measured", found.nmse(), r.first, r.first + r.count,
                       expected.nmse()));
  }
}

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
    if (l.report.rows > 0) {
      row["nmse"] = l.report.nmse();
      row["decibels"] = l.report.error_squares > 0 ? ordered_json(l.report.decibels()) : nullptr;
      row["largest_error"] = l.report.largest_error;
      row["bits_per_element"] = l.report.bits_per_element();
    }
    if (l.group >= 0) row["group"] = l.group;
    tensors.push_back(row);
  }
  ordered_json document;
  document["scheme"] = job.scheme != nullptr ? ordered_json(job.scheme->name) : ordered_json(nullptr);
  if (job.scheme != nullptr) document["spec"] = to_json(canonical(spec));
  document["random"] = {{"seed", job.place.seed}, {"stream", job.place.stream}, {"step", job.place.step}};
  static const std::string signature = arithmetic_signature();  // as long as 30 MB
  document["signature"] = signature;
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

}  // namespace

ModelResult convert_model(const ModelJob& job) {
  const std::string command = job.scheme != nullptr ? "quantize" : "dequantize";
  const std::vector<std::string> files = model_files(command, job.in);
  for (const std::string& file : files)
    if (!file.ends_with(".safetensors") && !file.ends_with(".gguf"))
      throw Error(fmt::format("{} {}: models are read from .safetensors, .gguf or a folder of them", command, file));
  if (job.out.ends_with(".gguf") || job.out.ends_with(".safetensors"))
    throw Error(fmt::format("{}: a model is written to a folder; give a name without {}", job.out,
                            fs::path(job.out).extension().string()));
  check_layouts(job);
  const QuantSpec spec = model_spec(job);
  if (!job.changed) check_hashes(command, files);
  const std::optional<GgufModel> gguf = gguf_model_of(job, files);
  std::vector<ModelTensor> tensors = model_tensors(files, job.scheme == nullptr ? job.layouts : Layouts{});
  set_orientations(job, tensors);
  if (gguf) tensors = gguf_tensors(*gguf, std::move(tensors));
  const std::vector<Plan> plans = plans_of(job, spec, tensors);
  if (job.scheme == nullptr &&
      std::none_of(plans.begin(), plans.end(), [](const Plan& p) { return p.outcome == Outcome::decoded; }))
    throw Error(fmt::format("{} {}: no FP4 or FP8 weight in {} tensors: there is nothing to decode", command, job.in,
                            tensors.size()));
  uint64_t bytes = 0;
  for (const ModelTensor& t : tensors) bytes += t.bytes();
  // Each shard has its own file in the output; a folder becomes one GGUF.
  const std::vector<std::string> shards = gguf ? std::vector<std::string>{gguf->file} : files;
  const auto name_of = [&](const std::string& file) {
    if (gguf) return std::string("model.gguf");
    return fs::path(file).stem().string() + (writes_gguf(job) ? ".gguf" : ".safetensors");
  };
  const bool has_index = shards.size() > 1 && !writes_gguf(job);
  std::set<std::string> written;
  for (const std::string& file : shards)
    if (!written.insert(name_of(file)).second)
      throw Error(fmt::format("{} {}: two shards are called {}; rename one", command, job.in, name_of(file)));
  if (has_index) written.insert(index_name);
  if (job.force) refuse_remains(job.out, written);

  std::map<std::string, std::vector<const Plan*>> plans_of_file;
  for (const Plan& plan : plans) plans_of_file[gguf ? gguf->file : plan.tensor->file()].push_back(&plan);
  StagedFolder folder(job.out, job.force);
  ModelResult result;
  const auto begin = std::chrono::steady_clock::now();
  ProgressCount progress(job.progress, bytes);
  nlohmann::json weight_map = nlohmann::json::object();
  uint64_t total = 0;
  uint32_t number = 0;
  SharedFactors shared(job, spec, plans);
  std::vector<std::future<std::string>> hashes;  // of the shards in `hashed`, while the next ones are written
  std::vector<std::string> hashed;
  for (const std::string& file : shards) {
    const std::string name = name_of(file), path = folder.file(name).string();
    const std::vector<const Plan*>& here = plans_of_file[file];
    for (const Plan* plan : here)
      for (const TensorInfo& t : plan->infos)
        if (!weight_map.emplace(t.name, name).second)
          throw Error(fmt::format("{}: {}: the output has a tensor {} already", file, plan->tensor->name, t.name));
    std::optional<GgufMetadata> metadata;
    if (writes_gguf(job))
      metadata = with_file_type(gguf                      ? gguf_metadata(job, *gguf)
                                : file.ends_with(".gguf") ? metadata_of(open_file(file))
                                                          : plain_metadata(),
                                job.scheme->gguf);
    ShardWriter out(path, here, file, metadata ? &*metadata : nullptr);
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
    hashes.push_back(beside(job.threads, [path] { return sha256_file(path); }));
    hashed.push_back(name);
  }
  if (has_index)
    write_file(folder.file(index_name),
               ordered_json{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}.dump(2) + "\n", false);
  result.notes = write_model_folder(job, plans, folder);
  ordered_json document = document_of(job, spec, result);
  for (size_t i = 0; i < hashes.size(); ++i) document["files"][hashed[i]] = {{"sha256", hashes[i].get()}};
  write_file(folder.file(model_record), document.dump(2) + "\n", false);
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
