#include "src/model/survey.h"

#include <algorithm>
#include <cmath>

#include "src/threads/in_order.h"

namespace fp4 {
namespace {

bool measures_whole_tensor(const QuantSpec& s) {
  return s.has_scale() && (s.tensor_scale == TensorScale::current || s.tensor_scale == TensorScale::hold);
}

// What one thread reads, quantises, decodes and measures rows with, a piece at a time, so that each piece stays in its
// caches.
struct Worker {
  WeightReader* reader = nullptr;
  std::vector<float> x = {}, y = {};
  Quantized q = {}, all = {};                         // of a piece, and of the band where somebody takes it
  std::vector<std::vector<RowStatistics>> sums = {};  // of each spec
  float amax = 0;
  bool has_nan = false;  // looked for where a spec wants to know
};

constexpr int64_t piece_bytes = int64_t{256} << 10;  // of float32: a level 2 cache holds it twice

void append(Quantized& all, const Quantized& piece, bool is_first) {
  if (is_first) {
    all = piece;
    return;
  }
  all.rows += piece.rows;
  all.codes.insert(all.codes.end(), piece.codes.begin(), piece.codes.end());
  all.scales.insert(all.scales.end(), piece.scales.begin(), piece.scales.end());
  all.real_scales.insert(all.real_scales.end(), piece.real_scales.begin(), piece.real_scales.end());
  if (all.spec.tensor_scale_cols(all.cols) > 0)
    all.tensor_scale.insert(all.tensor_scale.end(), piece.tensor_scale.begin(), piece.tensor_scale.end());
  all.geometry = geometry_of(all.spec, all.rows, all.cols);
}

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
  if (const FloatFormat& f = format_of(spec.element); f.is_grid())  // packed, with shared micro-exponents
    bytes =
        static_cast<int64_t>(std::ceil(static_cast<double>(rows * q.geometry.padded_cols) * f.grid->packed_bits() / 8));
  if (spec.has_scale()) bytes += q.geometry.scale_rows * q.geometry.scale_cols * (is_real(spec.scale) ? 4 : 1);
  if (spec.has_tensor_scale())  // in their format; our files keep factors as fp32
    bytes += row_of(factor_format_table, spec.factor_format).bits / 8 *
             (spec.tensor_scale_cols(cols) > 0 ? rows * spec.tensor_scale_cols(cols) : 1);
  return static_cast<uint64_t>(bytes);
}

float largest_magnitude(WeightReader& reader, int threads, bool looks_for_nan) {
  const int64_t rows = reader.rows(), cols = reader.cols();
  const int64_t band = std::max<int64_t>(1, piece_bytes / (4 * std::max<int64_t>(cols, 1)));
  const int64_t bands = (rows + band - 1) / band;
  const int count = reader.reads_anywhere() ? static_cast<int>(std::clamp<int64_t>(bands, 1, std::max(threads, 1))) : 1;
  struct Seeker {
    WeightReader reader;
    std::vector<float> x = {};
    float amax = 0;
    bool has_nan = false;
  };
  std::vector<Seeker> seekers(static_cast<size_t>(count), Seeker{reader});
  const auto seek = [&](int64_t i, int j) {
    Seeker& s = seekers[static_cast<size_t>(j)];
    const int64_t part = std::min(band, rows - i * band);
    s.amax = std::max(s.amax, s.reader.finite_amax(i * band, part, 1));
    if (!looks_for_nan) return;
    s.x.resize(static_cast<size_t>(part * cols));
    s.reader.read_rows(i * band, part, s.x.data(), 1);
    s.has_nan = s.has_nan || has_nan(s.x.data(), part * cols);
  };
  in_order(
      bands, count, [](int64_t, int) {}, seek, [](int64_t, int) {});
  float amax = 0;
  for (const Seeker& s : seekers) {
    if (s.has_nan) return float_of(canonical_nan_bits);
    amax = std::max(amax, s.amax);
  }
  return amax;
}

std::vector<QuantizeReport> survey(WeightReader& reader, const std::vector<QuantSpec>& specs,
                                   const SurveyOptions& options) {
  const Dispatcher backend(options.backend);
  const int64_t rows = reader.rows(), cols = reader.cols();
  const int64_t band =
      common_band(specs, rows, cols, std::min(options.band_bytes, (int64_t{32} << 20) / std::max(options.threads, 1)));
  const int64_t piece = std::min(band, common_band(specs, rows, cols, piece_bytes));
  const int64_t bands = (rows + band - 1) / band;
  const auto threads = static_cast<int>(std::clamp<int64_t>(bands, 1, std::max(options.threads, 1)));
  constexpr int64_t small = int64_t{1} << 16;  // elements: starting threads would take longer than the work
  const int inner = threads > 1 || rows * cols < small ? 1 : options.threads;
  // Threads read pieces of their own; a file that is read in one order only is read by bands, in turns.
  const bool reads_pieces = threads == 1 || reader.reads_anywhere();
  std::vector<WeightReader> copies;
  if (reads_pieces && threads > 1) copies.assign(static_cast<size_t>(threads - 1), reader);
  std::vector<Worker> workers(static_cast<size_t>(threads));
  for (size_t j = 0; j < workers.size(); ++j) workers[j].reader = j == 0 || copies.empty() ? &reader : &copies[j - 1];
  const auto rows_of = [&](int64_t i) { return std::min(band, rows - i * band); };
  // All rows, piece by piece: use(worker, band, row in it, rows); then give(worker, band) in the order of bands.
  const auto in_pieces = [&](auto&& use, auto&& give) {
    const auto fetch = [&](int64_t i, int j) {
      if (reads_pieces) return;
      Worker& w = workers[static_cast<size_t>(j)];
      w.x.resize(static_cast<size_t>(rows_of(i) * cols));
      reader.read_rows(i * band, rows_of(i), w.x.data(), 1);
    };
    const auto work = [&](int64_t i, int j) {
      Worker& w = workers[static_cast<size_t>(j)];
      for (int64_t done = 0; done < rows_of(i); done += piece) use(w, i, done, std::min(piece, rows_of(i) - done));
    };
    in_order(bands, threads, fetch, work, [&](int64_t i, int j) { give(workers[static_cast<size_t>(j)], i); });
  };
  const auto read = [&](Worker& w, int64_t i, int64_t done, int64_t count) {
    if (!reads_pieces) return view_of(w.x.data() + done * cols, count, cols);
    w.x.resize(static_cast<size_t>(count * cols));
    w.reader->read_rows(i * band + done, count, w.x.data(), inner);
    return view_of(w.x.data(), count, cols);
  };
  float amax = 0;
  const auto is_poisoned = [](const QuantSpec& s) { return s.nonfinite == Nonfinite::tensor_nan; };
  const bool looks_for_nan = std::any_of(specs.begin(), specs.end(), is_poisoned);
  bool found_nan = false;
  const bool is_read_twice =
      !options.amax && rows > piece && std::any_of(specs.begin(), specs.end(), measures_whole_tensor);
  if (is_read_twice)
    in_pieces(
        [&](Worker& w, int64_t i, int64_t done, int64_t count) {
          if (reads_pieces && !looks_for_nan) {
            w.amax = std::max(w.amax, w.reader->finite_amax(i * band + done, count, inner));
            return;
          }
          const MatrixView x = read(w, i, done, count);
          w.amax = std::max(w.amax, finite_amax(x.data, x.rows * x.cols));
          if (looks_for_nan) w.has_nan = w.has_nan || has_nan(x.data, x.rows * x.cols);
        },
        [](Worker&, int64_t) {});
  for (const Worker& w : workers) amax = std::max(amax, w.amax), found_nan |= w.has_nan;

  std::vector<QuantizeReport> reports(specs.size());
  std::vector<QuantizeCall> calls(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    reports[i].rows = rows;
    reports[i].cols = cols;
    reports[i].bytes = stored_bytes(specs[i], rows, cols);
    calls[i].spec = specs[i];
    calls[i].place = options.place;
    calls[i].threads = inner;
    if ((is_read_twice || options.amax) && measures_whole_tensor(specs[i])) {
      calls[i].held_amax =
          found_nan && is_poisoned(specs[i]) ? float_of(canonical_nan_bits) : options.amax.value_or(amax);
      calls[i].spec.tensor_scale = TensorScale::hold;  // the same arithmetic on a maximum that is handed over
    }
  }
  in_pieces(
      [&](Worker& w, int64_t band_index, int64_t done, int64_t count) {
        const MatrixView x = read(w, band_index, done, count);
        w.sums.resize(specs.size());
        w.y.resize(static_cast<size_t>(x.rows * x.cols));
        for (size_t i = 0; i < specs.size(); ++i) {
          QuantizeCall call = calls[i];
          call.x = x;
          call.row_offset = band_index * band + done;
          backend.quantize(call, w.q);
          if (options.decode)
            options.decode(w.q, w.y.data(), inner);
          else
            backend.dequantize(w.q, w.y.data(), inner);
          if (done == 0) w.sums[i].clear();
          const std::vector<RowStatistics> sums = row_statistics(w.q, x, w.y.data(), inner);
          w.sums[i].insert(w.sums[i].end(), sums.begin(), sums.end());
          if (options.take) append(w.all, w.q, done == 0);
        }
      },
      [&](Worker& w, int64_t i) {
        for (size_t k = 0; k < specs.size(); ++k) add_rows(reports[k], w.sums[k]);
        if (options.rows) options.rows(i * band, w.sums[0]);
        if (options.take) options.take(w.all);
        if (options.progress) options.progress(static_cast<uint64_t>(rows_of(i) * cols));
      });
  for (size_t i = 0; i < specs.size(); ++i) {
    calls[i].x = view_of(workers[0].x.data(), std::min(piece, rows), cols);
    reports[i].backend = backend.for_quantize(calls[i]).name();
  }
  return reports;
}

}  // namespace fp4
