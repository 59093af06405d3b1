#include "src/stream/quantize_bands.h"

#include <algorithm>
#include <cmath>

#include "src/threads/in_order.h"

namespace fp4 {
namespace {

bool measures_whole_tensor(const QuantSpec& s) {
  return s.has_scale() && (s.tensor_scale == TensorScale::current || s.tensor_scale == TensorScale::hold);
}

bool is_poisoned(const QuantSpec& s) { return s.nonfinite == Nonfinite::tensor_nan; }

// What one thread reads, quantises, decodes and measures rows with, a piece at a time, so that each piece stays in its
// caches.
struct BandWorker {
  RowReader* reader = nullptr;
  std::vector<QuantizeCall> calls = {};               // of each spec
  std::vector<float> x = {}, y = {}, kept = {};       // kept: x with zeros for what a mask leaves out
  Quantized q = {}, all = {};                         // of a piece, and of the band where somebody takes it
  std::vector<std::vector<RowStatistics>> sums = {};  // of each spec
};

constexpr int64_t piece_bytes = int64_t{256} << 10;  // of float32: a level 2 cache holds it twice

// What the mask of each row of a piece keeps.
class PieceMask {
 public:
  PieceMask(Sparsity sparsity, const MatrixView& x)
      : cols_(x.cols), room_(x.cols / 2 + 2), kept_(static_cast<size_t>(x.rows * room_)) {
    for (int64_t r = 0; r < x.rows; ++r)
      counts_.push_back(largest_of_row(sparsity, x.data + r * cols_, cols_, kept_.data() + r * room_));
  }
  void clear_others(float* rows) const {
    for (size_t r = 0; r < counts_.size(); ++r) {
      const auto at = static_cast<int64_t>(r);
      fp4::clear_others(kept_.data() + at * room_, counts_[r], cols_, rows + at * cols_);
    }
  }

 private:
  int64_t cols_, room_;
  std::vector<int32_t> kept_;
  std::vector<int64_t> counts_;
};

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

// The calls of all bands, one a spec, and the reports with what is known beforehand.
struct PreparedBands {
  std::vector<QuantizeCall> calls;
  std::vector<QuantizeReport> reports;
};
PreparedBands prepared(RowReader& reader, const std::vector<QuantSpec>& specs, const BandOptions& options,
                       const std::function<Sparsity(size_t)>& sparsity_of, int64_t piece, int threads) {
  const int64_t rows = reader.rows(), cols = reader.cols();
  TensorAmax amax;
  if (options.amax) amax.finite = *options.amax;
  const bool is_read_twice =
      !options.amax && rows > piece && std::any_of(specs.begin(), specs.end(), measures_whole_tensor);
  if (is_read_twice)
    amax = largest_magnitude(reader, options.threads, std::any_of(specs.begin(), specs.end(), is_poisoned));
  PreparedBands out = {std::vector<QuantizeCall>(specs.size()), std::vector<QuantizeReport>(specs.size())};
  for (size_t i = 0; i < specs.size(); ++i) {
    out.reports[i].rows = rows;
    out.reports[i].cols = cols;
    out.reports[i].bytes = stored_bytes(specs[i], rows, cols, sparsity_of(i));
    QuantizeCall& call = out.calls[i];
    call.spec = specs[i];
    call.place = options.place;
    call.random_words = options.random_words;
    call.threads = threads;
    if ((is_read_twice || options.amax) && measures_whole_tensor(specs[i])) {
      call.held_amax = amax.of(specs[i]);
      call.spec.tensor_scale = TensorScale::hold;  // the same arithmetic on a maximum that is handed over
    }
  }
  return out;
}

}  // namespace

int64_t band_rows(const std::vector<QuantSpec>& specs, int64_t rows, int64_t cols, int64_t bytes) {
  int64_t step = 1;  // rows of blocks are powers of two: the largest divides all
  for (const QuantSpec& s : specs) {
    if (s.has_scale() && s.block.kind == BlockKind::tensor) return std::max<int64_t>(rows, 1);
    step = std::max(step, geometry_of(s, rows, cols).block_rows);
  }
  return std::max(bytes / (4 * std::max<int64_t>(cols, 1)) / step * step, step);
}

uint64_t stored_bytes(const QuantSpec& spec, int64_t rows, int64_t cols, Sparsity sparsity) {
  const Quantized q = {.spec = spec, .geometry = geometry_of(spec, rows, cols)};
  int64_t bytes = rows * q.code_row_bytes();
  if (const FloatFormat& f = format_of(spec.element); f.is_grid())  // packed, with shared micro-exponents
    bytes =
        static_cast<int64_t>(std::ceil(static_cast<double>(rows * q.geometry.padded_cols) * f.grid->packed_bits() / 8));
  if (sparsity != Sparsity::none) {
    const double metadata = static_cast<double>(rows * cols) * row_of(sparsity_table, sparsity).metadata_bits / 8;
    bytes = (bytes + 1) / 2 + static_cast<int64_t>(std::ceil(metadata));
  }
  if (spec.has_scale())
    bytes += q.geometry.scale_rows * q.geometry.scale_cols *
             (spec.scale == Scale::bf16 ? 2
              : is_real(spec.scale)     ? 4
                                        : 1);
  if (spec.has_tensor_scale())  // in their format; our files keep factors as fp32
    bytes += row_of(factor_format_table, spec.factor_format).bits / 8 *
             (spec.tensor_scale_cols(cols) > 0 ? rows * spec.tensor_scale_cols(cols) : 1);
  return static_cast<uint64_t>(bytes);
}

float TensorAmax::of(const QuantSpec& spec) const {
  return has_nan && is_poisoned(spec) ? float_of(canonical_nan_bits) : finite;
}

TensorAmax largest_magnitude(RowReader& reader, int threads, bool looks_for_nan) {
  const int64_t rows = reader.rows(), cols = reader.cols();
  const int64_t band = std::max<int64_t>(1, piece_bytes / (4 * std::max<int64_t>(cols, 1)));
  const int64_t bands = (rows + band - 1) / band;
  const int count = reader.reads_anywhere() ? static_cast<int>(std::clamp<int64_t>(bands, 1, std::max(threads, 1))) : 1;
  struct Seeker {
    std::unique_ptr<RowReader> reader;
    std::vector<float> x = {};
    TensorAmax found = {};
  };
  std::vector<Seeker> seekers(static_cast<size_t>(count));
  for (Seeker& s : seekers) s.reader = reader.copy();
  const auto seek = [&](int64_t i, int j) {
    Seeker& s = seekers[static_cast<size_t>(j)];
    const int64_t part = std::min(band, rows - i * band);
    if (!looks_for_nan) {
      s.found.finite = std::max(s.found.finite, s.reader->finite_amax(i * band, part, 1));
      return;
    }
    s.x.resize(static_cast<size_t>(part * cols));
    s.reader->read_rows(i * band, part, s.x.data(), 1);
    s.found.finite = std::max(s.found.finite, finite_amax(s.x.data(), part * cols));
    s.found.has_nan = s.found.has_nan || has_nan(s.x.data(), part * cols);
  };
  in_order(
      bands, count, [](int64_t, int) {}, seek, [](int64_t, int) {});
  TensorAmax all;
  for (const Seeker& s : seekers) {
    all.finite = std::max(all.finite, s.found.finite);
    all.has_nan = all.has_nan || s.found.has_nan;
  }
  return all;
}

// long: one stream, whose threads share what each step is told
std::vector<QuantizeReport> quantize_bands(RowReader& reader, const std::vector<QuantSpec>& specs,
                                           const BandOptions& options) {
  const Dispatcher backend(options.backend);
  const auto sparsity_of = [&](size_t k) { return options.sparsity.empty() ? Sparsity::none : options.sparsity[k]; };
  const int64_t rows = reader.rows(), cols = reader.cols();
  const int64_t band =
      band_rows(specs, rows, cols, std::min(options.band_bytes, (int64_t{32} << 20) / std::max(options.threads, 1)));
  const int64_t piece = std::min(band, band_rows(specs, rows, cols, piece_bytes));
  const int64_t bands = std::max<int64_t>(1, (rows + band - 1) / band);
  const auto threads = static_cast<int>(std::clamp<int64_t>(bands, 1, std::max(options.threads, 1)));
  constexpr int64_t small = int64_t{1} << 16;  // elements: starting threads would take longer than the work
  const int inner = threads > 1 || rows * cols < small ? 1 : options.threads;

  PreparedBands made = prepared(reader, specs, options, sparsity_of, piece, inner);
  std::vector<QuantizeCall>& calls = made.calls;
  std::vector<QuantizeReport>& reports = made.reports;
  // Threads read pieces of their own; a file that is read in one order only is read by bands, in turns.
  const bool reads_pieces = threads == 1 || reader.reads_anywhere();
  std::vector<std::unique_ptr<RowReader>> copies;
  std::vector<BandWorker> workers(static_cast<size_t>(threads));
  for (BandWorker& w : workers) {
    w.reader = &reader;
    if (reads_pieces && &w != &workers.front()) w.reader = copies.emplace_back(reader.copy()).get();
    w.calls = calls;
    w.sums.resize(specs.size());
  }
  const auto worker = [&](int j) -> BandWorker& { return workers[static_cast<size_t>(j)]; };
  const auto rows_of = [&](int64_t i) { return std::min(band, rows - i * band); };
  const auto fetch = [&](int64_t i, int j) {
    if (reads_pieces) return;
    worker(j).x.resize(static_cast<size_t>(rows_of(i) * cols));
    reader.read_rows(i * band, rows_of(i), worker(j).x.data(), 1);
  };
  const auto quantise_piece = [&](BandWorker& w, int64_t i, int64_t done, int64_t count) {
    MatrixView x = view_of(w.x.data() + done * cols, count, cols);
    if (reads_pieces) {
      w.x.resize(static_cast<size_t>(count * cols));
      w.reader->read_rows(i * band + done, count, w.x.data(), inner);
      x = view_of(w.x.data(), count, cols);
    }
    w.y.resize(static_cast<size_t>((options.keeps_decoded ? rows_of(i) : count) * cols));
    float* const y = w.y.data() + (options.keeps_decoded ? done * cols : 0);
    for (size_t k = 0; k < specs.size(); ++k) {
      w.calls[k].x = x;
      std::optional<PieceMask> mask;
      if (sparsity_of(k) != Sparsity::none) {  // the largest element of a tensor is kept, so that its scale stays
        w.kept.assign(x.data, x.data + count * cols);
        mask.emplace(sparsity_of(k), x).clear_others(w.kept.data());
        w.calls[k].x = view_of(w.kept.data(), count, cols);
      }
      w.calls[k].row_offset = i * band + done;
      backend.quantize(w.calls[k], w.q);
      if (options.decode)
        options.decode(w.q, y, inner);
      else
        backend.dequantize(w.q, y, inner);
      if (mask) mask->clear_others(y);
      if (done == 0) w.sums[k].clear();
      const std::vector<RowStatistics> sums = row_statistics(w.q, x, y, inner);
      w.sums[k].insert(w.sums[k].end(), sums.begin(), sums.end());
      if (!options.sinks.empty()) append(w.all, w.q, done == 0);
    }
  };
  const auto quantise = [&](int64_t i, int j) {
    int64_t done = 0;
    do quantise_piece(worker(j), i, done, std::min(piece, rows_of(i) - done));
    while ((done += piece) < rows_of(i));
  };
  std::vector<BandStep> give;
  for (const auto& sink : options.sinks)
    give.emplace_back([&](int64_t i, int j) {
      const BandWorker& w = worker(j);
      sink({i * band, w.all, w.y, w.sums[0]});
    });
  give.emplace_back([&](int64_t i, int j) {
    for (size_t k = 0; k < specs.size(); ++k) add_rows(reports[k], worker(j).sums[k]);
    if (options.progress) options.progress(static_cast<uint64_t>(rows_of(i) * cols));
  });
  in_order(bands, threads, fetch, quantise, give);
  for (size_t i = 0; i < specs.size(); ++i) {
    calls[i].x = view_of(workers[0].x.data(), std::min(piece, rows), cols);
    reports[i].backend = backend.for_quantize(calls[i]).name();
  }
  return std::move(made.reports);
}

}  // namespace fp4
