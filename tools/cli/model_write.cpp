#include "tools/cli/model_write.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "fp4/arithmetic.h"
#include "src/error.h"
#include "src/model/survey.h"
#include "src/output.h"
#include "src/signature.h"
#include "src/spec_text.h"
#include "src/tensor_file/tensor_writer.h"
#include "src/version.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/streams.h"

namespace fp4::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int64_t band_bytes = int64_t{4} << 20;

bool has_match(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& p) { return fnmatch(p.c_str(), name.c_str(), 0) == 0; });
}

void check_patterns(const char* option, const std::vector<std::string>& patterns,
                    const std::vector<ModelTensor>& tensors) {
  for (const std::string& p : patterns)
    if (std::none_of(tensors.begin(), tensors.end(), [&](const ModelTensor& t) { return has_match({p}, t.name); }))
      throw Error(fmt::format("{}: no tensor of the model is called '{}'; `fp4sim inspect` lists them", option, p));
}

bool is_block_type(const ModelTensor& t) {
  return t.parts.front().gguf != nullptr && t.parts.front().gguf->values != GgufValues::plain;
}

// Why the scheme cannot hold a tensor; empty where it can.
std::string refusal(const CheckpointScheme& s, const ModelTensor& t) {
  if (!has_values(t)) return fmt::format("{} has no real values", t.type());
  if (t.shape.size() < 2) return fmt::format("shape {} is no matrix", shape_text(t.shape));
  if (matrix_cols(t.shape) == 0 || matrix_cols(t.shape) % static_cast<uint64_t>(s.block) != 0)
    return fmt::format("its {} columns are no multiple of the block of {}", matrix_cols(t.shape), s.block);
  if (t.scheme == nullptr && !t.name.ends_with(s.whole))
    return fmt::format("its name does not end in '{}', which the scheme replaces", s.whole);
  return "";
}

// "layer.0.weight_packed" of one scheme -> "layer.0." + what another scheme puts there.
std::string stem_in(const ModelTensor& t, const CheckpointScheme& s) {
  const std::string whole = t.scheme == nullptr ? t.name : t.stem + t.scheme->whole;
  return whole.ends_with(s.whole) ? whole.substr(0, whole.size() - std::strlen(s.whole)) : whole + ".";
}

enum class Way { quantise, decode, copy };

struct Plan {
  const ModelTensor* tensor;
  Way way;
  std::vector<TensorInfo> infos;  // to write, in this order
};

std::vector<TensorInfo> scheme_infos(const ModelTensor& t, const CheckpointScheme& s) {
  const std::string stem = stem_in(t, s);
  Shape codes = t.shape, scales = t.shape;
  scales.back() /= static_cast<uint64_t>(s.block);
  codes.back() /= 2;
  if (std::string_view(s.codes) == "_blocks") {
    codes.back() = scales.back();
    codes.push_back(static_cast<uint64_t>(s.block) / 2);
  }
  std::vector<TensorInfo> infos = {{stem + s.codes, s.codes_dtype, codes}, {stem + s.scales, s.scales_dtype, scales}};
  if (s.meaning != Factor::one)
    infos.push_back({stem + s.factor, Dtype::f32, s.meaning == Factor::direct ? Shape{} : Shape{1}});
  return infos;
}

std::vector<Plan> plan_of(const ModelJob& job, const std::vector<ModelTensor>& tensors) {
  check_patterns("--tensors", job.tensors, tensors);
  check_patterns("--keep", job.keep, tensors);
  std::vector<std::string> keep = job.keep;
  if (keep.empty() && job.tensors.empty()) keep.assign(std::begin(kept_by_default), std::end(kept_by_default));
  std::vector<Plan> plans;
  for (const ModelTensor& t : tensors) {
    const bool is_named =
        job.tensors.empty() ? !has_match(keep, t.name) : has_match(job.tensors, t.name) && !has_match(job.keep, t.name);
    Plan plan = {&t, Way::copy, {}};
    if (job.scheme != nullptr) {
      const std::string why = refusal(*job.scheme, t);
      // Without patterns, vectors and integers stay; a matrix that cannot be held is somebody's decision.
      const bool is_skipped = job.tensors.empty() && (!has_values(t) || t.shape.size() < 2 ||
                                                      (t.scheme == nullptr && !t.name.ends_with(job.scheme->whole)));
      if (is_named && !why.empty() && !is_skipped)
        throw Error(fmt::format("{}: tensor {} cannot be {}: {}; --keep '{}' leaves it as it is", t.file(), t.name,
                                job.scheme->name, why, t.name));
      if (is_named && why.empty()) plan.way = Way::quantise;
    } else if (is_named && (t.scheme != nullptr || is_block_type(t))) {
      plan.way = Way::decode;
    }
    if (plan.way == Way::copy && is_block_type(t)) plan.way = Way::decode;  // safetensors have no such type
    if (plan.way == Way::quantise) plan.infos = scheme_infos(t, *job.scheme);
    if (plan.way == Way::decode) {
      const std::string name = t.scheme != nullptr ? t.stem + t.scheme->whole : t.name;
      plan.infos = {{name, job.scheme == nullptr ? job.real : Dtype::f32, t.shape}};
    }
    if (plan.way == Way::copy)
      for (const TensorPlace& part : t.parts) plan.infos.push_back(part.info);
    plans.push_back(plan);
  }
  return plans;
}

QuantSpec spec_of(const ModelJob& job) {
  if (job.scheme == nullptr) return {};
  const QuantSpec own = quant_spec_from_words(job.scheme->spec, job.scheme->name);
  const QuantSpec s = quant_spec_from_words(job.words.empty() ? job.scheme->spec : job.words, "--spec");
  const bool has_factor = job.scheme->meaning != Factor::one;
  const bool fits = s.element == own.element && s.scale == own.scale && s.block == own.block &&
                    s.tensor_scale == (has_factor ? TensorScale::current : TensorScale::none) && s.prescale == 1.0f;
  if (fits) return s;
  throw Error(
      fmt::format("--spec: {} holds element {}, scale {}, block {}, tensor_scale {} and prescale 1; '{}' has "
                  "others",
                  job.scheme->name, row_of(element_table, own.element).name, row_of(scale_table, own.scale).name,
                  job.scheme->block, has_factor ? "current" : "none", job.words));
}

uint16_t bf16_of(float value) {
  const uint32_t quiet = is_nan(value) ? 0x40 : 0;  // NaN stays one
  return static_cast<uint16_t>(bits_of(rounded_to_bf16(value)) >> 16 | quiet);
}

void copy_tensor(const Plan& plan, SafetensorsWriter& out, ByteProgress& progress) {
  std::vector<unsigned char> buffer;
  for (const TensorPlace& part : plan.tensor->parts) {
    OpenOptions options;
    options.entry = part.gguf == nullptr ? part.info.name : "";
    Bytes bytes = open_file(part.file);
    if (part.gguf != nullptr) {
      options.raw_dtype = part.info.dtype;
      options.raw_shape = part.info.shape;
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

void decode_tensor(const ModelJob& job, const Plan& plan, SafetensorsWriter& out, ByteProgress& progress) {
  WeightReader reader(*plan.tensor);
  const int64_t rows = reader.rows(), cols = std::max<int64_t>(reader.cols(), 1);
  const int64_t band = std::max<int64_t>(1, band_bytes / (4 * cols));
  std::vector<float> y;
  std::vector<uint16_t> narrow;
  for (int64_t first = 0; first < rows; first += band) {
    const int64_t count = std::min(band, rows - first);
    y.resize(static_cast<size_t>(count * reader.cols()));
    reader.read_rows(first, count, y.data(), job.threads);
    if (plan.infos[0].dtype == Dtype::bf16) {
      narrow.resize(y.size());
      std::transform(y.begin(), y.end(), narrow.begin(), bf16_of);
      out.write(narrow.data(), narrow.size() * 2);
    } else {
      out.write(y.data(), y.size() * 4);
    }
    progress.add(plan.tensor->bytes() * static_cast<uint64_t>(count) / static_cast<uint64_t>(rows));
  }
}

QuantizeReport quantise_tensor(const ModelJob& job, const QuantSpec& spec, uint32_t number, const Plan& plan,
                               SafetensorsWriter& out, ByteProgress& progress) {
  WeightReader reader(*plan.tensor);
  std::vector<uint8_t> scales;  // they follow the codes in the file
  float factor = 1;
  SurveyOptions options;
  options.place = job.place;
  options.place.stream += 128 * number;
  options.backend = job.backend;
  options.threads = job.threads;
  options.band_bytes = band_bytes;
  options.take = [&](const Quantized& q) {
    out.write(q.codes.data(), q.codes.size());
    scales.insert(scales.end(), q.scales.begin(), q.scales.end());
    factor = q.tensor_scale[0];
  };
  const double share = static_cast<double>(plan.tensor->bytes()) / static_cast<double>(reader.rows() * reader.cols());
  options.progress = [&](uint64_t elements) {
    progress.add(static_cast<uint64_t>(share * static_cast<double>(elements)));
  };
  QuantizeReport report = survey(reader, {spec}, options)[0];
  out.write(scales.data(), scales.size());
  if (job.scheme->meaning == Factor::reciprocal) factor = 1.0f / factor;
  if (job.scheme->meaning != Factor::one) out.write(&factor, 4);
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

}  // namespace

ModelResult convert_model(const ModelJob& job) {
  const char* command = job.scheme != nullptr ? "quantize" : "dequantize";
  const std::vector<std::string> files = model_files(command, job.in);
  for (const std::string& file : files)
    if (!file.ends_with(".safetensors") && !file.ends_with(".gguf"))
      throw Error(fmt::format("{} {}: models are read from .safetensors, .gguf or a folder of them", command, file));
  const QuantSpec spec = spec_of(job);
  const std::vector<ModelTensor> tensors = model_tensors(files);
  const std::vector<Plan> plans = plan_of(job, tensors);
  uint64_t bytes = 0;
  for (const ModelTensor& t : tensors) bytes += t.bytes();

  StagedFolder folder(job.out, job.force);
  ModelResult result;
  ByteProgress progress(bytes);
  ordered_json weight_map = ordered_json::object();
  uint64_t total = 0;
  uint32_t number = 0;
  for (const std::string& file : files) {
    const std::string name = fs::path(file).stem().string() + ".safetensors";
    std::vector<TensorInfo> infos;
    for (const Plan& plan : plans)
      if (plan.tensor->file() == file) infos.insert(infos.end(), plan.infos.begin(), plan.infos.end());
    for (const TensorInfo& t : infos) weight_map[t.name] = name;
    SafetensorsWriter out(folder.file(name).string(), infos, {{"format", "pt"}});
    for (const Plan& plan : plans) {
      if (plan.tensor->file() != file) continue;
      ModelLine line = {plan.tensor->name, "kept", plan.tensor->shape, plan.tensor->bytes(), 0, {}};
      for (const TensorInfo& t : plan.infos) line.bytes_out += byte_count(t.name, t.dtype, t.shape);
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
  if (files.size() > 1)
    write_file(folder.file("model.safetensors.index.json"),
               ordered_json{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}.dump(2) + "\n", false);
  write_file(folder.file("fp4sim.json"), document_of(job, spec, result).dump(2) + "\n", false);
  folder.commit();
  result.seconds = progress.seconds();
  return result;
}

}  // namespace fp4::tools
