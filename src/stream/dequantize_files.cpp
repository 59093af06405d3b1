// The way back: codes, scales and tensor scale of a folder to a tensor, by the manifest. Every shape is checked against
// the spec before a byte is decoded, since the files may have been changed since.
#include <algorithm>
#include <deque>
#include <map>

#include "src/arith/code_order.h"
#include "src/arith/known_words.h"
#include "src/arith/spec_text.h"
#include "src/files/manifest.h"
#include "src/files/sha256.h"
#include "src/files/tensor_writer.h"
#include "src/stream/quantize_bands.h"
#include "src/stream/quantize_files.h"
#include "src/text/error.h"

namespace fp4::folder {
namespace {

struct Manifest {
  QuantSpec spec;
  Shape shape;  // of the decoded tensor
  Order order;
  std::map<std::string, std::string> sha256;  // of each file
};

// Only what decoding needs: other keys are provenance, and a later version may write more of them.
Manifest read_manifest(const std::string& folder) {
  const Json document = open_manifest(folder, "`dequantize` takes a folder written by `quantize`");
  JsonReader given(document, folder + "/manifest.json");
  Manifest manifest;
  set_quant(manifest.spec, given.at("spec"));
  JsonReader files = given.at("files");
  const JsonReader shape = files.at("dequantized.npy").at("shape");
  for (const JsonReader& axis : shape.list())
    manifest.shape.push_back(static_cast<uint64_t>(axis.integer(0, INT64_MAX)));
  byte_count(shape.place(), Dtype::f32, manifest.shape);  // an Error where that is more than a machine can hold
  for (auto [name, file] : files.entries()) manifest.sha256[name] = file.at("sha256").text();
  // Folders of version 0.2 say only whether codes are unpacked.
  if (const auto unpacked = given.find("unpacked"); unpacked && unpacked->boolean())
    manifest.order.codes = golden::CodeLayout::unpacked;
  if (const auto nibbles = given.find("nibbles"))
    manifest.order.codes = golden::code_layout_of(nibbles->place(), nibbles->text());
  if (const auto scales = given.find("scale_layout"))
    manifest.order.scales = golden::scale_layout_of(scales->place(), scales->text());
  if (const std::string reason = invalid_reason(manifest.spec); !reason.empty()) given.at("spec").fail(reason);
  return manifest;
}

// A changed file decodes to numbers like any other: its hash says that they are not those of the tensor.
std::string checked(const Manifest& manifest, const std::string& folder, const std::string& name, bool changed) {
  const std::string path = path_inside(folder, name);
  if (changed) return path;
  const auto hash = manifest.sha256.find(name);
  if (hash == manifest.sha256.end()) throw damaged(folder, "manifest.json", "it does not name " + name);
  if (sha256_file(path) != hash->second)
    throw Error(folder + ": " + name +
                    " is damaged or was changed: its SHA-256 is not the one in manifest.json (--changed decodes it)",
                Error::failed);
  return path;
}

void expect(const TensorReader& reader, const Part& part) {
  if (reader.dtype() == part.dtype && reader.shape() == part.shape) return;
  throw Error(reader.name() + ": has " + info(reader.dtype()).name + " " + shape_text(reader.shape()) +
              ", the manifest says " + info(part.dtype).name + " " + shape_text(part.shape));
}

std::vector<uint8_t> read_bytes(TensorReader& reader, uint64_t first, uint64_t count) {
  std::vector<uint8_t> stored(static_cast<size_t>(count) * reader.row_bytes());
  reader.read_raw(first, count, stored.data());
  return stored;
}

// A band of a file that lies in tiles of rows, which is held whole, row by row.
std::vector<uint8_t> rows_of(const std::vector<uint8_t>& held, int64_t first, int64_t count, int64_t row_bytes) {
  const auto at = held.begin() + first * row_bytes;
  return {at, at + count * row_bytes};
}

}  // namespace

Quantized load_quantized(const std::string& folder, bool changed, Shape* shape) {
  const Manifest manifest = read_manifest(folder);
  if (shape != nullptr) *shape = manifest.shape;
  check_order(manifest.spec, manifest.order);
  const auto rows = static_cast<int64_t>(matrix_rows(manifest.shape));
  const auto cols = static_cast<int64_t>(matrix_cols(manifest.shape));
  const Layout layout = layout_of(manifest.spec, rows, cols, manifest.order, manifest.shape);
  Quantized q = {.spec = decoding_spec(manifest.spec), .rows = rows, .cols = cols};
  q.geometry = geometry_of(q.spec, rows, cols);
  for (size_t i = 0; i + 1 < layout.parts.size(); ++i) {
    const Part& part = layout.parts[i];
    TensorReader reader(checked(manifest, folder, part.name, changed));
    expect(reader, part);
    const bool is_codes = i == 0, is_scales = layout.has_scales && i == 1;
    if (is_codes || (is_scales && !is_real(q.spec.scale))) {
      std::vector<uint8_t> bytes = read_bytes(reader, 0, reader.rows());
      if (is_codes)
        bytes = relaid(bytes, file_layout(q.spec, manifest.order), memory_layout(q.spec), rows, q.geometry.padded_cols);
      if (is_scales)
        bytes = golden::from_layout(manifest.order.scales, bytes, q.geometry.scale_rows, q.geometry.scale_cols,
                                    reader.name());
      (is_codes ? q.codes : q.scales) = std::move(bytes);
      continue;
    }
    std::vector<float>& values = is_scales ? q.real_scales : q.tensor_scale;
    values.resize(static_cast<size_t>(reader.rows() * reader.cols()));
    reader.read_rows(0, reader.rows(), values.data());
  }
  return q;
}

// long: one stream of bands, whose buffers live through it
void dequantize_folder(const std::string& folder, const std::string& out, bool force, const std::string& backend_name,
                       int threads, bool changed) {
  const Dispatcher backend(backend_name);
  const Manifest manifest = read_manifest(folder);
  check_order(manifest.spec, manifest.order);
  const QuantSpec& spec = manifest.spec;
  const auto rows = static_cast<int64_t>(matrix_rows(manifest.shape));
  const auto cols = static_cast<int64_t>(matrix_cols(manifest.shape));
  const Layout layout = layout_of(spec, rows, cols, manifest.order, manifest.shape);
  std::deque<TensorReader> readers;
  for (size_t i = 0; i + 1 < layout.parts.size(); ++i) {
    readers.emplace_back(checked(manifest, folder, layout.parts[i].name, changed));
    expect(readers.back(), layout.parts[i]);
  }
  TensorReader& tensor_scale = readers.back();

  const bool holds_codes = !is_row_by_row(manifest.order.codes);
  const bool holds_scales = manifest.order.scales != golden::ScaleLayout::linear;
  const BlockGeometry all = geometry_of(spec, rows, cols);
  std::vector<uint8_t> codes, scales;
  if (holds_codes)
    codes = relaid(read_bytes(readers.front(), 0, readers.front().rows()), manifest.order.codes, memory_layout(spec),
                   rows, all.padded_cols);
  if (holds_scales)
    scales = golden::from_layout(manifest.order.scales, read_bytes(readers[1], 0, readers[1].rows()), all.scale_rows,
                                 all.scale_cols, readers[1].name());

  Quantized q;
  q.spec = decoding_spec(spec);
  q.cols = cols;
  const bool by_row = spec.tensor_scale_cols(cols) > 0;
  if (!by_row) {
    q.tensor_scale.resize(1);
    tensor_scale.read_rows(0, 1, q.tensor_scale.data());
  }
  TensorWriter writer(out, Dtype::f32, manifest.shape, force);
  const int64_t band = band_rows({spec}, rows, cols, QuantizeJob().band_bytes);
  std::vector<float> y;
  for (int64_t first = 0; first < rows; first += band) {
    q.rows = std::min(band, rows - first);
    q.geometry = geometry_of(spec, q.rows, cols);
    if (holds_codes)
      q.codes = rows_of(codes, first, q.rows, q.code_row_bytes());
    else
      q.codes = read_bytes(readers.front(), static_cast<uint64_t>(first), static_cast<uint64_t>(q.rows));
    if (!holds_codes)
      q.codes = relaid(q.codes, file_layout(spec, manifest.order), memory_layout(spec), q.rows, q.geometry.padded_cols);
    require_codes(q, readers.front().name(), first);
    if (layout.has_scales) {
      const auto count = static_cast<uint64_t>(q.geometry.scale_rows),
                 at = static_cast<uint64_t>(first / q.geometry.block_rows);
      q.scales.resize(is_real(spec.scale) ? 0 : count * static_cast<uint64_t>(q.geometry.scale_cols));
      q.real_scales.resize(is_real(spec.scale) ? count * static_cast<uint64_t>(q.geometry.scale_cols) : 0);
      if (is_real(spec.scale))
        readers[1].read_rows(at, count, q.real_scales.data());
      else if (holds_scales)
        q.scales = rows_of(scales, static_cast<int64_t>(at), q.geometry.scale_rows, q.geometry.scale_cols);
      else
        readers[1].read_raw(at, count, q.scales.data());
    }
    if (by_row) {
      q.tensor_scale.resize(static_cast<size_t>(q.rows) * tensor_scale.cols());
      tensor_scale.read_rows(static_cast<uint64_t>(first), static_cast<uint64_t>(q.rows), q.tensor_scale.data());
    }
    y.resize(static_cast<size_t>(q.rows * cols));
    backend.dequantize(q, y.data(), threads);
    writer.write(y);
  }
  writer.commit();
}

}  // namespace fp4::folder
