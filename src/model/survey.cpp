#include "src/model/survey.h"

#include <algorithm>

#include "src/parallel.h"

namespace fp4 {
namespace {

bool measures_whole_tensor(const QuantSpec& s) {
  return s.has_scale() && (s.tensor_scale == TensorScale::current || s.tensor_scale == TensorScale::hold);
}

struct Band {
  int64_t count = 0;  // rows
  std::vector<float> x = {}, y = {};
  Quantized q = {};
  std::vector<RowStatistics> sums = {};
};

// Whole blocks of every spec (their rows are powers of two), at least one.
int64_t common_band(const std::vector<QuantSpec>& specs, int64_t rows, int64_t cols, int64_t bytes) {
  int64_t step = 1;
  for (const QuantSpec& s : specs) {
    if (s.has_scale() && s.block.kind == BlockKind::tensor) return std::max<int64_t>(rows, 1);
    step = std::max(step, geometry_of(s, rows, cols).block_rows);
  }
  return std::max(bytes / (4 * std::max<int64_t>(cols, 1)) / step * step, step);
}

}  // namespace

uint64_t stored_bytes(const QuantSpec& spec, int64_t rows, int64_t cols) {
  Quantized q;
  q.spec = spec;
  q.geometry = geometry_of(spec, rows, cols);
  int64_t bytes = rows * q.code_row_bytes();
  if (spec.has_scale()) bytes += q.geometry.scale_rows * q.geometry.scale_cols * (is_real(spec.scale) ? 4 : 1);
  if (spec.has_tensor_scale())  // in their format; our files keep factors as fp32
    bytes += row_of(factor_format_table, spec.factor_format).bits / 8 *
             (spec.tensor_scale_cols(cols) > 0 ? rows * spec.tensor_scale_cols(cols) : 1);
  return static_cast<uint64_t>(bytes);
}

std::vector<QuantizeReport> survey(WeightReader& reader, const std::vector<QuantSpec>& specs,
                                   const SurveyOptions& options) {
  const Dispatcher backend(options.backend);
  const int64_t rows = reader.rows(), cols = reader.cols();
  const int64_t band =
      common_band(specs, rows, cols, std::min(options.band_bytes, (int64_t{32} << 20) / std::max(options.threads, 1)));
  // A group of bands is read, then each is worked on by one thread, then all are handed on: one wait a group.
  std::vector<Band> group(static_cast<size_t>(std::clamp<int64_t>((rows + band - 1) / band, 1, options.threads)));
  const auto count_at = [&](int64_t first) { return std::clamp<int64_t>(rows - first, 0, band); };
  const auto read = [&](Band& to, int64_t first) {
    to.count = count_at(first);
    to.x.resize(static_cast<size_t>(to.count * cols));
    if (to.count > 0) reader.read_rows(first, to.count, to.x.data(), options.threads);
  };
  float amax = 0;
  const bool is_read_twice = rows > band && std::any_of(specs.begin(), specs.end(), measures_whole_tensor);
  for (int64_t first = 0; is_read_twice && first < rows; first += band) {
    read(group[0], first);
    amax = std::max(amax, finite_amax(group[0].x.data(), group[0].count * cols));
  }

  std::vector<QuantizeReport> reports(specs.size());
  std::vector<QuantizeCall> calls(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    reports[i].rows = rows;
    reports[i].cols = cols;
    reports[i].bytes = stored_bytes(specs[i], rows, cols);
    calls[i].spec = specs[i];
    calls[i].place = options.place;
    calls[i].threads = group.size() > 1 ? 1 : options.threads;
    if (rows > band && measures_whole_tensor(specs[i])) {
      calls[i].held_amax = amax;
      calls[i].spec.tensor_scale = TensorScale::hold;  // the same arithmetic on a maximum that is handed over
    }
  }
  const auto step = static_cast<int64_t>(group.size()) * band;
  const int inner = group.size() > 1 ? 1 : options.threads;
  for (int64_t first = 0; first < rows; first += step) {
    for (size_t j = 0; j < group.size(); ++j) read(group[j], first + static_cast<int64_t>(j) * band);
    for (size_t i = 0; i < specs.size(); ++i) {
      parallel_for(0, static_cast<int64_t>(group.size()), 1, options.threads, 1, [&](int64_t j) {
        Band& b = group[static_cast<size_t>(j)];
        b.sums.clear();
        if (b.count == 0) return;
        QuantizeCall call = calls[i];
        call.x = view_of(b.x.data(), b.count, cols);
        call.row_offset = first + j * band;
        b.y.resize(b.x.size());
        backend.quantize(call, b.q);
        backend.dequantize(b.q, b.y.data(), inner);
        b.sums = row_statistics(b.q, call.x, b.y.data(), inner);
      });
      for (const Band& b : group) {
        add_rows(reports[i], b.sums);
        if (options.take && b.count > 0) options.take(i, b.q);
      }
    }
    if (options.progress) options.progress(static_cast<uint64_t>(std::min(step, rows - first) * cols));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    calls[i].x = view_of(group[0].x.data(), group[0].count, cols);
    reports[i].backend = backend.for_quantize(calls[i]).name();
  }
  return reports;
}

}  // namespace fp4
