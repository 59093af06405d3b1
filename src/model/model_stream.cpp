#include "src/model/model_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/files/safetensors.h"
#include "src/model/decode.h"
#include "src/model/weight_reader.h"
#include "src/stream/quantize_bands.h"
#include "src/text/error.h"
#include "src/threads/in_order.h"

namespace fp4 {
namespace {

constexpr int64_t band_bytes = int64_t{1} << 20;  // of float32

// Codes band by band, then scales and factors, in the layouts and with the factor of the scheme.
class SchemeWriter {
 public:
  SchemeWriter(const ModelJob& job, const TensorPlan& plan, ShardWriter& out) : job_(job), plan_(plan), out_(out) {}

  void take(const Quantized& q) {
    if (job_.writes_gguf()) {
      const std::vector<uint8_t> blocks = blocks_of(job_.scheme->gguf, q);
      return out_.write(blocks.data(), blocks.size());
    }
    if (job_.scheme->is_fp8()) {
      for (int64_t row = 0; row < q.rows; ++row)  // without the pads of the last blocks
        out_.write(q.codes.data() + row * q.code_row_bytes(), static_cast<size_t>(q.cols));
      real_scales_.insert(real_scales_.end(), q.real_scales.begin(), q.real_scales.end());
      return;
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
    if (job_.scheme->is_fp8()) out_.write(real_scales_.data(), real_scales_.size() * sizeof(float));
    if (plan_.has_factor) {
      const Shape& shape = plan_.infos[plan_.infos.size() - (plan_.inputs ? 2 : 1)].shape;
      factors.resize(element_count("factor", shape), factors.empty() ? 1.0f : factors[0]);  // experts share it
      out_.write(factors.data(), factors.size() * sizeof(float));
    }
    if (plan_.inputs) out_.write(&*plan_.inputs, sizeof(float));
  }

 private:
  const ModelJob& job_;
  const TensorPlan& plan_;
  ShardWriter& out_;
  std::vector<uint8_t> scales_ = {}, swapped_ = {};
  std::vector<float> real_scales_ = {};
};

// A factor as the scheme says it; Error where it cannot.
float factor_for(const ModelJob& job, const TensorPlan& plan, Factor meaning, float factor, float top) {
  const float said = factor_in(job.scheme->meaning, meaning, factor, top);
  if (std::isfinite(said) && said > 0) return said;
  throw Error(fmt::format("{}: {}: {} cannot say the factor {} of this tensor (it would be {})", plan.tensor->file(),
                          plan.tensor->name, job.scheme->name, factor, said));
}

}  // namespace

ShardWriter::ShardWriter(const std::string& path, const PlannedShard& shard) : path_(path) {
  if (shard.gguf) {
    std::vector<GgufTensor> tensors;
    for (const TensorPlan* plan : shard.tensors)
      for (size_t i = 0; i < plan->infos.size(); ++i)
        tensors.push_back({plan->infos[i].name, plan->types[i], plan->infos[i].shape, 0, 0});
    gguf_.emplace(path, *shard.gguf, std::move(tensors));
    return;
  }
  std::vector<TensorInfo> infos;
  for (const TensorPlan* plan : shard.tensors) infos.insert(infos.end(), plan->infos.begin(), plan->infos.end());
  safetensors_.emplace(path, infos, shard.metadata);
  const std::string header = safetensors_header(infos, shard.metadata);
  hash_.update(header.data(), header.size());
}

void ShardWriter::write(const void* data, size_t bytes) {
  if (gguf_) return gguf_->write(data, bytes);
  hash_.update(data, bytes);
  safetensors_->write(data, bytes);
}

void ShardWriter::commit() { gguf_ ? gguf_->commit() : safetensors_->commit(); }

std::string ShardWriter::sha256() { return gguf_ ? sha256_file(path_) : hash_.hex(); }

ModelStream::ModelStream(const ModelPlan& model)
    : model_(model),
      shared_(model),
      progress_(model.job.progress,
                std::accumulate(model.tensors.begin(), model.tensors.end(), uint64_t{0},
                                [](uint64_t sum, const ModelTensor& t) { return sum + t.bytes(); })) {}

Streamed ModelStream::write(const TensorPlan& plan, ShardWriter& out) {
  Streamed done;
  if (plan.is_fp4()) done.rows = rows_to_read_back(plan);
  switch (plan.way) {
    case Way::copy: copy(plan, out); break;
    case Way::drop: break;
    case Way::decode: done.report.nonfinite = decode(plan, out); break;
    case Way::carry: done.report.nonfinite = carry(plan, out); break;
    case Way::quantise: done.report = quantise(plan, out, *done.rows); break;
  }
  return done;
}

void ModelStream::copy(const TensorPlan& plan, ShardWriter& out) {
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
      progress_.add(buffer.size());
    }
  }
}

int64_t ModelStream::decode(const TensorPlan& plan, ShardWriter& out) {
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
  const auto threads = static_cast<int>(
      std::clamp<int64_t>(reader.reads_anywhere() ? model_.job.threads : 1, 1, std::max<int64_t>(bands, 1)));
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
    progress_.add(plan.tensor->bytes() * static_cast<uint64_t>(rows_of(i)) / static_cast<uint64_t>(rows));
  };
  in_order(
      bands, threads, [](int64_t, int) {}, decode, write);
  int64_t nonfinite = 0;
  for (const Worker& w : workers) nonfinite += w.nonfinite;
  return nonfinite;
}

QuantizeReport ModelStream::quantise(const TensorPlan& plan, ShardWriter& out, Reported& reported) {
  const ModelJob& job = model_.job;
  const QuantSpec& spec = model_.spec;
  WeightReader reader(*plan.tensor);
  const Dispatcher backend(job.backend);
  SchemeWriter writer(job, plan, out);
  float factor = 1;
  BandOptions options = {.place = job.place, .backend = job.backend, .threads = job.threads, .amax = shared_.of(plan)};
  options.place.stream += 128 * plan.number;
  options.decode = [&](const Quantized& q, float* y, int threads) { decode_weight(backend, q, y, threads); };
  options.sinks = {[&](const QuantizedBand& band) {
    if (band.q.rows > 0) factor = band.q.tensor_scale[0];
    writer.take(band.q);
    for (size_t i = 0; i < band.rows.size(); ++i) {
      const int64_t row = band.first + static_cast<int64_t>(i);
      if (row >= reported.first && row < reported.first + reported.count) reported.rows.push_back(band.rows[i]);
    }
  }};
  const double share = static_cast<double>(plan.tensor->bytes()) / static_cast<double>(reader.rows() * reader.cols());
  options.progress = [&](uint64_t elements) {
    progress_.add(static_cast<uint64_t>(share * static_cast<double>(elements)));
  };
  const QuantizeReport report = quantize_bands(reader, {spec}, options)[0];
  if (job.scheme->is_fp8() && report.nonfinite > 0)
    throw Error(fmt::format("{}: {} values are not finite, and no scale of {} may be; --keep '{}' leaves it as it is",
                            reader.name(), report.nonfinite, job.scheme->name, plan.tensor->name));
  if (plan.has_factor) factor = factor_for(job, plan, meaning_of(spec.decode), factor, resolve(spec).top());
  writer.finish({factor});
  return report;
}

int64_t ModelStream::carry(const TensorPlan& plan, ShardWriter& out) {
  const ModelJob& job = model_.job;
  WeightReader reader(*plan.tensor);
  SchemeWriter writer(job, plan, out);
  const int64_t band = std::max<int64_t>(1, band_bytes / std::max<int64_t>(reader.cols(), 1));
  // FP8 is of no scheme: its scales stand beside it as numbers.
  const CheckpointScheme& from = plan.tensor->scheme != nullptr ? *plan.tensor->scheme : *job.scheme;
  const Quantizer resolved = resolve(reading_spec(from));
  const uint64_t row_bytes = plan.tensor->bytes() / static_cast<uint64_t>(std::max<int64_t>(reader.rows(), 1));
  int64_t nonfinite = 0;
  for (int64_t first = 0; first < reader.rows(); first += band) {
    const int64_t count = std::min(band, reader.rows() - first);
    const Quantized& q = reader.read_quantized(first, count);
    for (const uint8_t scale : q.scales) nonfinite += is_nan(fp4::decode(resolved.scale, scale)) ? from.block : 0;
    if (from.is_fp8())
      nonfinite +=
          std::count_if(q.codes.begin(), q.codes.end(), [&](uint8_t c) { return resolved.element.is_nan_code(c); });
    writer.take(q);
    progress_.add(row_bytes * static_cast<uint64_t>(count));
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

}  // namespace fp4
