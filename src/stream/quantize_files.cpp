// A file's rows through quantize_bands() into the files of a folder, which are hashed and written as bands come.
#include "src/stream/quantize_files.h"

#include <fmt/format.h>

#include <deque>
#include <future>
#include <nlohmann/json.hpp>

#include "src/arith/report_json.h"
#include "src/arith/spec_text.h"
#include "src/backends/signature.h"
#include "src/files/manifest.h"
#include "src/files/output.h"
#include "src/files/tensor_writer.h"
#include "src/stream/quantize_bands.h"
#include "src/text/error.h"
#include "src/text/version.h"
#include "src/text/words.h"
#include "src/threads/in_order.h"

namespace fp4::folder {
namespace {

using nlohmann::ordered_json;

// The rows of a file's tensor.
class FileRows : public RowReader {
 public:
  explicit FileRows(TensorReader reader) : reader_(std::move(reader)) {}
  int64_t rows() const override { return static_cast<int64_t>(reader_.rows()); }
  int64_t cols() const override { return static_cast<int64_t>(reader_.cols()); }
  bool reads_anywhere() const override { return reader_.reads_anywhere(); }
  std::unique_ptr<RowReader> copy() const override { return std::make_unique<FileRows>(*this); }
  void read_rows(int64_t first, int64_t count, float* out, int) override {
    reader_.read_rows(static_cast<uint64_t>(first), static_cast<uint64_t>(count), out);
  }
  const TensorReader& file() const { return reader_; }

 private:
  TensorReader reader_;
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
  manifest["statistics"] =
      report_json(report, {"nmse", "clipped", "zeros", "underflows", "nonfinite", "largest_error", "bits_per_element"});
  return manifest;
}

// Codes, scales, tensor scale and decoded values, in the layouts of the job.
class TensorFiles {
 public:
  TensorFiles(const QuantizeJob& job, const Layout& layout, const Order& order, StagedFolder& folder, int64_t rows,
              int64_t cols)
      : spec_(job.spec), order_(order), rows_(rows), geometry_(geometry_of(job.spec, rows, cols)) {
    // The decoded values, most of the bytes, are hashed while the band in front of them is written.
    for (const Part& part : layout.parts) {
      const bool is_decoded = &part == &layout.parts.back();
      writers_.emplace_back(folder.file(part.name).string(), part.dtype, part.shape, false,
                            is_decoded ? TensorWriter::Hashed::apart : TensorWriter::Hashed::by_write);
    }
    codes_ = &writers_.front();
    if (layout.has_scales) scales_ = &writers_[1];
    tensor_scale_ = &writers_[writers_.size() - 2];
    decoded_ = &writers_.back();
  }

  void hash(const QuantizedBand& band) { decoded_->hash(band.decoded); }

  void write(const QuantizedBand& band) {
    const Quantized& q = band.q;
    if (keeps_codes_)
      kept_codes_.insert(kept_codes_.end(), q.codes.begin(), q.codes.end());
    else
      codes_->write(as_in_file(q.codes, q.rows));
    if (scales_ != nullptr) {
      if (is_real(spec_.scale))
        scales_->write(q.real_scales);
      else if (keeps_scales_)
        kept_scales_.insert(kept_scales_.end(), q.scales.begin(), q.scales.end());
      else
        scales_->write(q.scales);
    }
    if (spec_.tensor_scale_cols(q.cols) > 0 || band.first == 0) tensor_scale_->write(q.tensor_scale);
    decoded_->write(band.decoded);
  }

  // The SHA-256 of each file, which is complete from here on.
  std::vector<std::string> commit() {
    if (keeps_codes_) codes_->write(as_in_file(kept_codes_, rows_));
    if (keeps_scales_)
      scales_->write(golden::to_layout(order_.scales, kept_scales_, geometry_.scale_rows, geometry_.scale_cols));
    std::vector<std::string> hashes;
    for (TensorWriter& writer : writers_) {
      hashes.push_back(writer.sha256());
      writer.commit();
    }
    return hashes;
  }

 private:
  std::vector<uint8_t> as_in_file(const std::vector<uint8_t>& codes, int64_t rows) const {
    return relaid(codes, memory_layout(spec_), file_layout(spec_, order_), rows, geometry_.padded_cols);
  }

  const QuantSpec& spec_;
  Order order_;
  int64_t rows_;
  BlockGeometry geometry_;
  std::deque<TensorWriter> writers_ = {};
  TensorWriter *codes_ = nullptr, *scales_ = nullptr, *tensor_scale_ = nullptr, *decoded_ = nullptr;
  // Layouts in tiles of rows are written at the end, from what is kept here.
  const bool keeps_codes_ = !is_row_by_row(order_.codes), keeps_scales_ = order_.scales != golden::ScaleLayout::linear;
  std::vector<uint8_t> kept_codes_ = {}, kept_scales_ = {};
};

Dtype code_dtype(const QuantSpec& spec) {
  const int bits = format_of(spec.element).code_bits();
  return bits <= 8 ? Dtype::u8 : bits <= 16 ? Dtype::u16 : Dtype::u32;
}

bool is_packed(const QuantSpec& spec) { return format_of(spec.element).code_bits() == 4; }

}  // namespace

QuantizeReport quantize_to_folder(const QuantizeJob& job) {
  static_cast<void>(Dispatcher(job.backend));  // an unknown name is an Error before a file is opened
  TensorReader opened(job.in, job.open);
  if (job.transpose) opened.transpose();
  FileRows reader(std::move(opened));
  const int64_t rows = reader.rows(), cols = reader.cols();
  const Shape decoded_shape = job.transpose ? shape_of(rows, cols) : reader.file().shape();
  const Order order = {golden::code_layout_of("--nibbles", job.nibbles),
                       golden::scale_layout_of("--scale-layout", job.scale_layout)};
  check_order(job.spec, order);
  const Layout layout = layout_of(job.spec, rows, cols, order, decoded_shape);
  std::future<std::string> signature = beside(job.threads, [] { return arithmetic_signature(); });  // as long as 30 MB
  StagedFolder folder(job.out, job.force);
  if (!layout.has_scales) folder.drop("scales.npy");
  TensorFiles files(job, layout, order, folder, rows, cols);
  ProgressCount progress(job.progress, 4 * static_cast<uint64_t>(rows * cols));  // as float32

  BandOptions options = {job.place, job.random_words, job.backend, job.threads, job.band_bytes};
  options.keeps_decoded = true;
  options.sinks = {[&](const QuantizedBand& band) { files.hash(band); },
                   [&](const QuantizedBand& band) { files.write(band); }};
  options.progress = [&](uint64_t elements) { progress.add(4 * elements); };
  const QuantizeReport report = quantize_bands(reader, {job.spec}, options)[0];
  if (job.note)
    for (const std::string& note : reader.file().notes()) job.note(note);
  const std::vector<std::string> hashes = files.commit();
  write_file(folder.file("manifest.json"),
             sealed_manifest(manifest_of(job, layout, hashes, report, reader.file(), signature.get()), 2), false);
  folder.commit();
  return report;
}

std::vector<uint8_t> relaid(const std::vector<uint8_t>& codes, golden::CodeLayout from, golden::CodeLayout to,
                            int64_t rows, int64_t cols) {
  if (from == to) return codes;
  return golden::to_layout(to, golden::from_layout(from, codes, rows, cols, "codes"), rows, cols);
}

void check_order(const QuantSpec& spec, const Order& order) {
  const int bits = format_of(spec.element).code_bits();
  const golden::CodeLayoutInfo& layout = row_of(golden::code_layout_table, order.codes);
  const bool usual = order.codes == golden::CodeLayout::low_first || order.codes == golden::CodeLayout::unpacked;
  if (!usual && !golden::holds(layout, bits)) {
    std::string accepted;
    for (const golden::CodeLayoutInfo& row : golden::code_layout_table)
      if (row.id == golden::CodeLayout::low_first || golden::holds(row, bits)) add_word(accepted, row.name);
    throw Error(fmt::format("--nibbles: layout {} is one of {}-bit codes; accepted for element {}: {}", layout.name,
                            layout.bits, info_of(spec.element).name, accepted));
  }
  if (order.scales != golden::ScaleLayout::linear && (!spec.has_scale() || is_real(spec.scale)))
    throw Error(fmt::format("--scale-layout: layout {} is one of one-byte scales; accepted for scale {}: linear",
                            row_of(golden::scale_layout_table, order.scales).name,
                            row_of(scale_table, spec.scale).name));
}

golden::CodeLayout memory_layout(const QuantSpec& spec) {
  return is_packed(spec) ? golden::CodeLayout::low_first : golden::CodeLayout::unpacked;
}

golden::CodeLayout file_layout(const QuantSpec& spec, const Order& order) {
  return order.codes == golden::CodeLayout::low_first ? memory_layout(spec) : order.codes;
}

bool is_row_by_row(golden::CodeLayout layout) {
  const golden::Placing& p = row_of(golden::code_layout_table, layout).placing;
  return std::string_view(p.digits).starts_with("r,") && p.row_multiple == 1;
}

// Shapes after the command line's contract: K' = K padded to the block; codes [rows, K'/2 rounded up] packed; scales
// [rows, K'/B], 2-D [rows/B, K'/B] rounded up; tensor scale [1], outer128 [rows, ceil(K/128)].
Layout layout_of(const QuantSpec& spec, int64_t rows, int64_t cols, const Order& order, const Shape& decoded_shape) {
  const BlockGeometry g = geometry_of(spec, rows, cols);
  Layout layout;
  if (is_packed(spec) || file_layout(spec, order) != memory_layout(spec)) {
    const golden::CodeLayoutInfo& info = row_of(golden::code_layout_table, order.codes);
    const Dtype dtype = info.word_bytes == 4 ? Dtype::u32 : Dtype::u8;
    const auto words = [&](int64_t r) { return golden::padded_bytes(order.codes, r, g.padded_cols) / info.word_bytes; };
    const Shape flat = {static_cast<uint64_t>(words(rows))};
    layout.parts.push_back({"codes.npy", dtype, is_row_by_row(order.codes) ? shape_of(rows, words(1)) : flat});
  } else {
    layout.parts.push_back({"codes.npy", code_dtype(spec), shape_of(rows, g.padded_cols)});
  }
  layout.has_scales = spec.has_scale();
  if (layout.has_scales)
    layout.parts.push_back(
        {"scales.npy", is_real(spec.scale) ? Dtype::f32 : Dtype::u8,
         order.scales == golden::ScaleLayout::linear
             ? shape_of(g.scale_rows, g.scale_cols)
             : Shape{static_cast<uint64_t>(golden::padded_size(order.scales, g.scale_rows, g.scale_cols))}});
  layout.parts.push_back({"tensor_scale.npy", Dtype::f32,
                          spec.tensor_scale_cols(cols) > 0 ? shape_of(rows, spec.tensor_scale_cols(cols)) : Shape{1}});
  layout.parts.push_back({"dequantized.npy", Dtype::f32, decoded_shape});
  return layout;
}

}  // namespace fp4::folder
