// The way back: codes, scales and tensor scale of a folder to a tensor, by the manifest. Every shape is checked against
// the spec before a byte is decoded, since the files may have been changed since.
#include <algorithm>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/error.h"
#include "src/spec_text.h"
#include "src/tensor_file/tensor_writer.h"
#include "tools/quantize_layout.h"

namespace fp4::tools {
namespace {

struct Manifest {
  QuantSpec spec;
  Shape shape;  // of the decoded tensor
  bool unpacked = false;
};

Manifest read_manifest(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(path + ": cannot be read; `dequantize` takes a folder written by `quantize`");
  Manifest manifest;
  try {
    const Json value = Json::parse(in);
    set_quant(manifest.spec, value.at("spec"), path + " spec");
    manifest.shape = value.at("files").at("dequantized.npy").at("shape").get<Shape>();
    manifest.unpacked = value.value("unpacked", false);
  } catch (const Json::exception& error) {
    throw Error(path + ": is not a manifest of `quantize`: " + error.what());
  }
  if (const std::string reason = invalid_reason(manifest.spec); !reason.empty()) throw Error(path + ": " + reason);
  return manifest;
}

void expect(const TensorReader& reader, const Part& part) {
  if (reader.dtype() == part.dtype && reader.shape() == part.shape) return;
  throw Error(reader.name() + ": has " + info(reader.dtype()).name + " " + shape_text(reader.shape()) +
              ", the manifest says " + info(part.dtype).name + " " + shape_text(part.shape));
}

// Rows [first, first + count) of codes, in the layout of Quantized.
void read_codes(TensorReader& reader, bool unpacked, int64_t first, Quantized& q) {
  const auto bytes = static_cast<size_t>(q.rows) * reader.row_bytes();
  std::vector<uint8_t> stored(bytes);
  reader.read_raw(static_cast<uint64_t>(first), static_cast<uint64_t>(q.rows), stored.data());
  q.codes = unpacked && q.is_packed() ? pack_nibbles(stored, q.rows, q.geometry.padded_cols) : std::move(stored);
}

}  // namespace

void dequantize_folder(const std::string& folder, const std::string& out, bool force, const std::string& backend_name,
                       int threads) {
  const Dispatcher backend(backend_name);
  const std::string base = folder + "/";
  const Manifest manifest = read_manifest(base + "manifest.json");
  const QuantSpec& spec = manifest.spec;
  const auto rows = static_cast<int64_t>(matrix_rows(manifest.shape));
  const auto cols = static_cast<int64_t>(matrix_cols(manifest.shape));
  const Layout layout = layout_of(spec, rows, cols, manifest.unpacked, manifest.shape);
  std::deque<TensorReader> readers;
  for (size_t i = 0; i + 1 < layout.parts.size(); ++i) {
    readers.emplace_back(base + layout.parts[i].name);
    expect(readers.back(), layout.parts[i]);
  }
  TensorReader& tensor_scale = readers.back();

  Quantized q;
  q.spec = spec;
  q.cols = cols;
  const bool outer = spec.has_outer_scale();
  if (!outer) {
    q.tensor_scale.resize(1);
    tensor_scale.read_rows(0, 1, q.tensor_scale.data());
  }
  TensorWriter writer(out, Dtype::f32, manifest.shape, force);
  const int64_t band = band_rows(spec, rows, cols, QuantizeJob().band_bytes);
  std::vector<float> y;
  for (int64_t first = 0; first < rows; first += band) {
    q.rows = std::min(band, rows - first);
    q.geometry = geometry_of(spec, q.rows, cols);
    read_codes(readers.front(), manifest.unpacked, first, q);
    if (layout.has_scales) {
      const auto count = static_cast<uint64_t>(q.geometry.scale_rows),
                 at = static_cast<uint64_t>(first / q.geometry.block_rows);
      q.scales.resize(is_real(spec.scale) ? 0 : count * static_cast<uint64_t>(q.geometry.scale_cols));
      q.real_scales.resize(is_real(spec.scale) ? count * static_cast<uint64_t>(q.geometry.scale_cols) : 0);
      if (is_real(spec.scale))
        readers[1].read_rows(at, count, q.real_scales.data());
      else
        readers[1].read_raw(at, count, q.scales.data());
    }
    if (outer) {
      q.tensor_scale.resize(static_cast<size_t>(q.rows) * tensor_scale.cols());
      tensor_scale.read_rows(static_cast<uint64_t>(first), static_cast<uint64_t>(q.rows), q.tensor_scale.data());
    }
    y.resize(static_cast<size_t>(q.rows * cols));
    backend.dequantize(q, y.data(), threads);
    writer.write(y);
  }
  writer.commit();
}

}  // namespace fp4::tools
