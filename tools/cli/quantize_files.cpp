// Bands of rows through a backend. A tensor scale needs the maximum of the whole tensor first: then the file is read
// twice, and each band is handed that maximum. Only `block=tensor` has to hold a whole tensor.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <future>
#include <nlohmann/json.hpp>
#include <system_error>

#include "src/error.h"
#include "src/manifest.h"
#include "src/model/survey.h"
#include "src/output.h"
#include "src/signature.h"
#include "src/spec_text.h"
#include "src/tensor_file/tensor_writer.h"
#include "src/version.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/quantize_layout.h"

namespace fp4::tools {
namespace {

using nlohmann::ordered_json;

float amax_of(const QuantSpec& spec, TensorReader& reader, int64_t rows, int64_t cols, int64_t band) {
  float amax = 0.0f;
  std::vector<float> x;
  for (int64_t first = 0; first < rows; first += band) {
    const int64_t count = std::min(band, rows - first);
    x.resize(static_cast<size_t>(count * cols));
    reader.read_rows(static_cast<uint64_t>(first), static_cast<uint64_t>(count), x.data());
    amax = joined_amax(amax, tensor_amax(spec, x.data(), count * cols));
  }
  return amax;
}

ordered_json manifest_of(const QuantizeJob& job, const Layout& layout, const std::vector<std::string>& hashes,
                         const QuantizeReport& report, const TensorReader& reader, const std::string& signature) {
  ordered_json files;
  for (size_t i = 0; i < layout.parts.size(); ++i) {
    const Part& part = layout.parts[i];
    files[part.name] = {{"sha256", hashes[i]}, {"shape", part.shape}, {"dtype", info(part.dtype).numpy_name}};
  }
  ordered_json manifest;
  manifest["schema"] = 2;
  manifest["spec"] = to_json(canonical(job.spec));
  manifest["preset"] = job.preset.empty() ? ordered_json(nullptr) : ordered_json(job.preset);
  manifest["signature"] = signature;
  manifest["version"] = version();
  manifest["files"] = files;
  manifest["command"] = job.command_line;
  manifest["random"] = {{"seed", job.place.seed}, {"stream", job.place.stream}, {"step", job.place.step}};
  manifest["input"] = {{"name", reader.name()}, {"shape", reader.shape()}, {"dtype", info(reader.dtype()).numpy_name}};
  manifest["transpose"] = job.transpose;
  manifest["nibbles"] = job.nibbles;
  manifest["scale_layout"] = job.scale_layout;
  manifest["rows"] = report.rows;
  manifest["cols"] = report.cols;
  manifest["statistics"] = {{"nmse", report.nmse()},
                            {"clipped", report.share(report.clipped)},
                            {"zeros", report.share(report.zeros)},
                            {"underflows", report.share(report.underflows)},
                            {"nonfinite", report.nonfinite},
                            {"largest_error", report.largest_error},
                            {"bits_per_element", report.bits_per_element()}};
  return manifest;
}

// Work for another thread, or for this one when its result is asked for: alone, or where there are no more threads.
template <class Work>
auto beside(int threads, Work work) {
  try {
    return std::async(threads > 1 ? std::launch::async : std::launch::deferred, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

// The call for every band of a tensor; one that has a tensor scale is read once for its maximum, unless it is one band.
QuantizeCall call_for(const QuantizeJob& job, TensorReader& reader, int64_t band) {
  const auto rows = static_cast<int64_t>(reader.rows());
  QuantizeCall call;
  call.spec = job.spec;
  call.place = job.place;
  call.random_words = job.random_words;
  call.threads = job.threads;
  const TensorScale kind = job.spec.has_scale() ? job.spec.tensor_scale : TensorScale::none;
  if (rows > band && (kind == TensorScale::current || kind == TensorScale::hold)) {
    call.held_amax = amax_of(job.spec, reader, rows, static_cast<int64_t>(reader.cols()), band);
    call.spec.tensor_scale = TensorScale::hold;  // the same arithmetic on a maximum that is handed over
  }
  return call;
}

}  // namespace

QuantizeReport quantize_to_folder(const QuantizeJob& job) {
  const Dispatcher backend(job.backend);
  TensorReader reader(job.in, job.open);
  if (job.transpose) reader.transpose();
  QuantizeReport report;
  report.rows = static_cast<int64_t>(reader.rows());
  report.cols = static_cast<int64_t>(reader.cols());
  const Shape decoded_shape = job.transpose ? shape_of(report.rows, report.cols) : reader.shape();
  const Order order = {golden::code_layout_of("--nibbles", job.nibbles),
                       golden::scale_layout_of("--scale-layout", job.scale_layout)};
  check_order(job.spec, order);
  const Layout layout = layout_of(job.spec, report.rows, report.cols, order, decoded_shape);
  report.bytes = stored_bytes(job.spec, report.rows, report.cols);
  std::future<std::string> signature = beside(job.threads, [] { return arithmetic_signature(); });  // as long as 30 MB
  StagedFolder folder(job.out, job.force);
  const int64_t band = band_rows(job.spec, report.rows, report.cols, job.band_bytes);

  ByteProgress progress(4 * static_cast<uint64_t>(report.rows * report.cols));  // as float32
  QuantizeCall call = call_for(job, reader, band);
  call.threads = std::max(1, job.threads - 1);  // one writes

  std::deque<TensorWriter> writers;
  for (const Part& part : layout.parts) writers.emplace_back(folder.file(part.name).string(), part.dtype, part.shape);
  TensorWriter& codes = writers.front();
  TensorWriter& tensor_scale = writers[writers.size() - 2];
  TensorWriter& decoded = writers.back();

  Quantized q;
  std::vector<float> x, y, written;
  // Most bytes are decoded values: they are hashed and written while the next band is quantised.
  std::future<void> writing;
  const auto wait = [&] {
    if (writing.valid()) writing.get();
  };
  // Layouts in tiles of rows are written at the end, from what is kept here.
  std::vector<uint8_t> kept_codes, kept_scales;
  const bool keeps_codes = !is_row_by_row(order.codes), keeps_scales = order.scales != golden::ScaleLayout::linear;
  const auto in_order = [&](const std::vector<uint8_t>& codes_in_memory, int64_t rows) {
    return relaid(codes_in_memory, memory_layout(job.spec), file_layout(job.spec, order), rows, q.geometry.padded_cols);
  };
  for (int64_t first = 0; first < report.rows || first == 0; first += band) {
    const int64_t count = std::min(band, report.rows - first);
    x.resize(static_cast<size_t>(count * report.cols));
    y.resize(x.size());
    reader.read_rows(static_cast<uint64_t>(first), static_cast<uint64_t>(count), x.data());
    call.x = view_of(x.data(), count, report.cols);
    call.row_offset = first;
    backend.quantize(call, q);
    backend.dequantize(q, y.data(), call.threads);
    if (keeps_codes)
      kept_codes.insert(kept_codes.end(), q.codes.begin(), q.codes.end());
    else
      codes.write(in_order(q.codes, q.rows));
    if (layout.has_scales) {
      if (is_real(job.spec.scale))
        writers[1].write(q.real_scales);
      else if (keeps_scales)
        kept_scales.insert(kept_scales.end(), q.scales.begin(), q.scales.end());
      else
        writers[1].write(q.scales);
    }
    if (job.spec.tensor_scale_cols(q.cols) > 0 || first == 0) tensor_scale.write(q.tensor_scale);
    add_statistics(report, q, call.x, y.data(), call.threads);
    progress.add(4 * static_cast<uint64_t>(x.size()));
    wait();
    std::swap(y, written);
    writing = beside(job.threads, [&] { decoded.write(written); });
  }
  wait();
  if (keeps_codes) codes.write(in_order(kept_codes, report.rows));
  if (keeps_scales) {
    const BlockGeometry g = geometry_of(job.spec, report.rows, report.cols);
    writers[1].write(golden::to_layout(order.scales, kept_scales, g.scale_rows, g.scale_cols));
  }
  report.backend = backend.for_quantize(call).name();
  print_notes(reader.notes());
  std::vector<std::string> hashes;
  for (TensorWriter& writer : writers) {
    hashes.push_back(writer.sha256());
    writer.commit();
  }
  write_file(folder.file("manifest.json"),
             sealed_manifest(manifest_of(job, layout, hashes, report, reader, signature.get()), 2), false);
  folder.commit();
  return report;
}

}  // namespace fp4::tools
