#include "src/model/survey.h"

#include <algorithm>
#include <future>
#include <system_error>

#include "src/float_environment.h"

namespace fp4 {
namespace {

bool measures_whole_tensor(const QuantSpec& s) {
  return s.has_scale() && (s.tensor_scale == TensorScale::current || s.tensor_scale == TensorScale::hold);
}

// Rows that one thread reads, quantises, decodes and measures, a piece at a time, so that each piece stays in its
// caches.
struct Band {
  int64_t first = 0, count = 0;  // rows
  std::vector<float> x = {}, y = {};
  Quantized q = {}, all = {};                         // of a piece, and of the band where somebody takes it
  std::vector<std::vector<RowStatistics>> sums = {};  // of each spec
  float amax = 0;
  bool has_nan = false;  // looked for where a spec wants to know
};

constexpr int64_t piece_bytes = int64_t{256} << 10;  // of float32: a level 2 cache holds it twice

// work(0) here and the others on threads of their own, or here where there are no more. Threads that are done sleep: a
// group takes milliseconds, for which OpenMP's would spin, on a busy machine longer than they work.
template <class Work>
void each_on_a_thread(int64_t count, const Work& work) {
  std::vector<std::future<void>> others;
  std::vector<int64_t> here = {0};
  for (int64_t j = 1; j < count; ++j) {
    try {
      others.push_back(std::async(std::launch::async, [&work, j] {
        const DefaultFloatEnvironment floats;
        work(j);
      }));
    } catch (const std::system_error&) {
      here.push_back(j);
    }
  }
  for (const int64_t j : here) work(j);
  for (std::future<void>& other : others) other.get();
}

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
  const int64_t piece = std::min(band, common_band(specs, rows, cols, piece_bytes));
  // Bands of a group are worked on at once, then handed on in their order. Files that are read in one order only are
  // read by one thread.
  const int64_t bands = std::clamp<int64_t>((rows + band - 1) / band, 1, options.threads);
  const bool each_reads = reader.reads_anywhere() && bands > 1;
  std::vector<Band> group(static_cast<size_t>(bands));
  std::vector<WeightReader> readers;
  if (each_reads) readers.assign(group.size(), reader);
  const int inner = group.size() > 1 ? 1 : options.threads;
  const auto at_once = [&](auto&& work) {
    each_on_a_thread(bands, [&](int64_t j) { work(j, group[static_cast<size_t>(j)]); });
  };
  // The rows of a group, piece by piece: use(band, first row, rows), with b.x read.
  const auto in_pieces = [&](int64_t first, auto&& use) {
    for (int64_t j = 0; j < bands; ++j) {
      Band& b = group[static_cast<size_t>(j)];
      b.first = first + j * band;
      b.count = std::clamp<int64_t>(rows - b.first, 0, band);
      if (each_reads || b.count == 0) continue;
      b.x.resize(static_cast<size_t>(b.count * cols));
      reader.read_rows(b.first, b.count, b.x.data(), options.threads);
    }
    at_once([&](int64_t j, Band& b) {
      for (int64_t done = 0; done < b.count; done += piece) {
        const int64_t count = std::min(piece, b.count - done);
        const float* x = b.x.data() + (each_reads ? 0 : done * cols);
        if (each_reads) {
          b.x.resize(static_cast<size_t>(count * cols));
          readers[static_cast<size_t>(j)].read_rows(b.first + done, count, b.x.data(), 1);
          x = b.x.data();
        }
        use(b, done, view_of(x, count, cols));
      }
    });
  };
  const int64_t step = bands * band;
  float amax = 0;
  const auto is_poisoned = [](const QuantSpec& s) { return s.nonfinite == Nonfinite::tensor_nan; };
  const bool looks_for_nan = std::any_of(specs.begin(), specs.end(), is_poisoned);
  bool found_nan = false;
  const bool is_read_twice = rows > piece && std::any_of(specs.begin(), specs.end(), measures_whole_tensor);
  for (int64_t first = 0; is_read_twice && first < rows; first += step)
    in_pieces(first, [&](Band& b, int64_t, const MatrixView& x) {
      b.amax = std::max(b.amax, finite_amax(x.data, x.rows * x.cols));
      if (looks_for_nan) b.has_nan = b.has_nan || has_nan(x.data, x.rows * x.cols);
    });
  for (const Band& b : group) amax = std::max(amax, b.amax), found_nan |= b.has_nan;

  std::vector<QuantizeReport> reports(specs.size());
  std::vector<QuantizeCall> calls(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    reports[i].rows = rows;
    reports[i].cols = cols;
    reports[i].bytes = stored_bytes(specs[i], rows, cols);
    calls[i].spec = specs[i];
    calls[i].place = options.place;
    calls[i].threads = inner;
    if (is_read_twice && measures_whole_tensor(specs[i])) {
      calls[i].held_amax = found_nan && is_poisoned(specs[i]) ? float_of(canonical_nan_bits) : amax;
      calls[i].spec.tensor_scale = TensorScale::hold;  // the same arithmetic on a maximum that is handed over
    }
  }
  for (int64_t first = 0; first < rows; first += step) {
    in_pieces(first, [&](Band& b, int64_t done, const MatrixView& x) {
      b.sums.resize(specs.size());
      b.y.resize(static_cast<size_t>(x.rows * x.cols));
      for (size_t i = 0; i < specs.size(); ++i) {
        QuantizeCall call = calls[i];
        call.x = x;
        call.row_offset = b.first + done;
        backend.quantize(call, b.q);
        backend.dequantize(b.q, b.y.data(), inner);
        if (done == 0) b.sums[i].clear();
        const std::vector<RowStatistics> sums = row_statistics(b.q, x, b.y.data(), inner);
        b.sums[i].insert(b.sums[i].end(), sums.begin(), sums.end());
        if (options.take) append(b.all, b.q, done == 0);
      }
    });
    for (Band& b : group) {
      if (b.count == 0) continue;
      for (size_t i = 0; i < specs.size(); ++i) add_rows(reports[i], b.sums[i]);
      if (options.take) options.take(b.all);
    }
    if (options.progress) options.progress(static_cast<uint64_t>(std::min(step, rows - first) * cols));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    calls[i].x = view_of(group[0].x.data(), std::min(piece, rows), cols);
    reports[i].backend = backend.for_quantize(calls[i]).name();
  }
  return reports;
}

}  // namespace fp4
