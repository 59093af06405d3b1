// Bands of rows through a backend. A tensor scale needs the maximum of the whole tensor first: then the file is read
// twice, and each band is handed that maximum. Only `block=tensor` has to hold a whole tensor.
#include <algorithm>
#include <deque>
#include <future>
#include <nlohmann/json.hpp>

#include "src/arith/spec_text.h"
#include "src/backends/signature.h"
#include "src/files/manifest.h"
#include "src/files/output.h"
#include "src/files/tensor_writer.h"
#include "src/model/survey.h"
#include "src/stream/quantize_layout.h"
#include "src/text/error.h"
#include "src/text/version.h"
#include "src/threads/in_order.h"

namespace fp4::folder {
namespace {

using nlohmann::ordered_json;

// What one thread reads, quantises, decodes and measures a band with.
struct Worker {
  TensorReader reader;
  std::vector<float> x = {}, y = {};
  Quantized q = {};
  std::vector<RowStatistics> sums = {};
  float amax = 0;
};

// Bands of a tensor, read by every thread for itself or, where a file is read in one order only, in turns.
class Bands {
 public:
  Bands(const TensorReader& reader, int64_t band, int threads)
      : rows_(static_cast<int64_t>(reader.rows())),
        cols_(static_cast<int64_t>(reader.cols())),
        band_(band),
        count_(std::max<int64_t>(1, (rows_ + band - 1) / band)),
        each_reads_(reader.reads_anywhere()),
        workers_(static_cast<size_t>(std::clamp<int64_t>(count_, 1, std::max(threads, 1))), Worker{reader}) {}

  int threads() const { return static_cast<int>(workers_.size()); }
  int64_t count() const { return count_; }
  Worker& first() { return workers_.front(); }
  const std::vector<Worker>& workers() const { return workers_; }

  // work(worker, first row, x), then each give(worker, first row) in the order of bands.
  template <class Work, class... Give>
  void run(const Work& work, const Give&... give) {
    const auto read = [&](int64_t i, Worker& w) {
      const int64_t rows = std::min(band_, rows_ - i * band_);
      w.x.resize(static_cast<size_t>(rows * cols_));
      TensorReader& reader = each_reads_ ? w.reader : workers_.front().reader;
      reader.read_rows(static_cast<uint64_t>(i * band_), static_cast<uint64_t>(rows), w.x.data());
    };
    const auto worker = [&](int j) -> Worker& { return workers_[static_cast<size_t>(j)]; };
    fp4::in_order(
        count_, threads(),
        [&](int64_t i, int j) {
          if (!each_reads_) read(i, worker(j));
        },
        [&](int64_t i, int j) {
          if (each_reads_) read(i, worker(j));
          work(worker(j), i * band_, view_of(worker(j).x.data(), std::min(band_, rows_ - i * band_), cols_));
        },
        [&](int64_t i, int j) { give(worker(j), i * band_); }...);
  }

 private:
  int64_t rows_, cols_, band_, count_;
  bool each_reads_;
  std::vector<Worker> workers_;
};

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

// The call for every band of a tensor; one that has a tensor scale is read once for its maximum, unless it is one band.
QuantizeCall call_for(const QuantizeJob& job, Bands& bands) {
  QuantizeCall call;
  call.spec = job.spec;
  call.place = job.place;
  call.random_words = job.random_words;
  call.threads = bands.threads() > 1 ? 1 : job.threads;
  const TensorScale kind = job.spec.has_scale() ? job.spec.tensor_scale : TensorScale::none;
  if (bands.count() == 1 || (kind != TensorScale::current && kind != TensorScale::hold)) return call;
  bands.run([&](Worker& w, int64_t,
                const MatrixView& x) { w.amax = joined_amax(w.amax, tensor_amax(job.spec, x.data, x.rows * x.cols)); },
            [](Worker&, int64_t) {});
  call.held_amax = 0;
  for (const Worker& w : bands.workers()) call.held_amax = joined_amax(call.held_amax, w.amax);
  call.spec.tensor_scale = TensorScale::hold;  // the same arithmetic on a maximum that is handed over
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
  if (!layout.has_scales) folder.drop("scales.npy");
  const int64_t band = band_rows(job.spec, report.rows, report.cols, job.band_bytes);

  ProgressCount progress(job.progress, 4 * static_cast<uint64_t>(report.rows * report.cols));  // as float32
  Bands bands(reader, band, job.threads);
  QuantizeCall call = call_for(job, bands);

  std::deque<TensorWriter> writers;
  // The decoded values, most of the bytes, are hashed while the band in front of them is written.
  for (const Part& part : layout.parts) {
    const bool is_decoded = &part == &layout.parts.back();
    writers.emplace_back(folder.file(part.name).string(), part.dtype, part.shape, false,
                         is_decoded ? TensorWriter::Hashed::apart : TensorWriter::Hashed::by_write);
  }
  TensorWriter& codes = writers.front();
  TensorWriter& tensor_scale = writers[writers.size() - 2];
  TensorWriter& decoded = writers.back();

  // Layouts in tiles of rows are written at the end, from what is kept here.
  std::vector<uint8_t> kept_codes, kept_scales;
  const bool keeps_codes = !is_row_by_row(order.codes), keeps_scales = order.scales != golden::ScaleLayout::linear;
  const BlockGeometry geometry = geometry_of(job.spec, report.rows, report.cols);
  const auto as_in_file = [&](const std::vector<uint8_t>& codes_in_memory, int64_t rows) {
    return relaid(codes_in_memory, memory_layout(job.spec), file_layout(job.spec, order), rows, geometry.padded_cols);
  };
  const bool is_relaid = file_layout(job.spec, order) != memory_layout(job.spec);
  const auto quantise = [&](Worker& w, int64_t first, const MatrixView& x) {
    QuantizeCall part = call;
    part.x = x;
    part.row_offset = first;
    w.y.resize(w.x.size());
    backend.quantize(part, w.q);
    backend.dequantize(w.q, w.y.data(), part.threads);
    w.sums = row_statistics(w.q, x, w.y.data(), part.threads);
    if (!keeps_codes && is_relaid) w.q.codes = as_in_file(w.q.codes, w.q.rows);
  };
  // In the order of bands, while the other threads quantise.
  const auto hash = [&](Worker& w, int64_t) { decoded.hash(w.y); };
  const auto write = [&](Worker& w, int64_t first) {
    const Quantized& q = w.q;
    if (keeps_codes)
      kept_codes.insert(kept_codes.end(), q.codes.begin(), q.codes.end());
    else
      codes.write(q.codes);
    if (layout.has_scales) {
      if (is_real(job.spec.scale))
        writers[1].write(q.real_scales);
      else if (keeps_scales)
        kept_scales.insert(kept_scales.end(), q.scales.begin(), q.scales.end());
      else
        writers[1].write(q.scales);
    }
    if (job.spec.tensor_scale_cols(q.cols) > 0 || first == 0) tensor_scale.write(q.tensor_scale);
    add_rows(report, w.sums);
    decoded.write(w.y);
    progress.add(4 * static_cast<uint64_t>(w.x.size()));
  };
  bands.run(quantise, hash, write);
  if (keeps_codes) codes.write(as_in_file(kept_codes, report.rows));
  if (keeps_scales)
    writers[1].write(golden::to_layout(order.scales, kept_scales, geometry.scale_rows, geometry.scale_cols));
  call.x = view_of(bands.first().x.data(), std::min(band, report.rows), report.cols);
  report.backend = backend.for_quantize(call).name();
  if (job.note)
    for (const std::string& note : bands.first().reader.notes()) job.note(note);
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

}  // namespace fp4::folder
