#include "src/model/tensor_write.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/arith/amax.h"
#include "src/model/decode.h"
#include "src/model/gguf_blocks.h"
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
      factors.resize(element_count("factor", shape), factors.empty() ? 1.0f : factors[0]);  // experts share it
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

}  // namespace

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

QuantizeReport quantise_tensor(const ModelJob& job, const QuantSpec& spec, uint32_t number, const Plan& plan,
                               std::optional<float> amax, ShardWriter& out, ProgressCount& progress,
                               Reported& reported) {
  WeightReader reader(*plan.tensor);
  const Dispatcher backend(job.backend);
  SchemeWriter writer(job, plan, out);
  float factor = 1;
  BandOptions options;
  options.place = job.place;
  options.place.stream += 128 * number;
  options.backend = job.backend;
  options.threads = job.threads;
  options.amax = amax;
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
    progress.add(static_cast<uint64_t>(share * static_cast<double>(elements)));
  };
  const QuantizeReport report = quantize_bands(reader, {spec}, options)[0];
  if (plan.has_factor) factor = factor_for(job, plan, meaning_of(spec.decode), factor, resolve(spec).top());
  writer.finish({factor});
  return report;
}

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

}  // namespace fp4
