#include "src/model/compare_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "src/arith/spec_note.h"
#include "src/arith/spec_text.h"
#include "src/files/open_array.h"
#include "src/model/keep_rules.h"
#include "src/model/model_files.h"
#include "src/model/weight_reader.h"
#include "src/stream/quantize_bands.h"
#include "src/text/error.h"
#include "src/text/words.h"

namespace fp4 {
namespace {

// Why quantising a model would leave a tensor as it is; empty where it would not. The rules of `quantize --scheme`.
std::string reason_to_leave(const ModelTensor& t) {
  const std::string why = reason_of_rules(t.whole, t.shape.size(), t.is_quantised());
  if (!why.empty()) return why;
  if (t.shape.size() < 2) return "no matrix";
  return t.is_quantised() || t.whole.ends_with("weight") || is_expert(t.whole) ? "" : "no weight by its name";
}

// Leaves out what a model keeps, with a note; files without a weight are arrays and no model.
void leave_kept(std::vector<ModelTensor>& weights, size_t first, std::vector<std::string>& notes) {
  const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(first);
  if (std::none_of(begin, weights.end(), [](const ModelTensor& t) {
        return t.is_quantised() || (t.shape.size() > 1 && t.whole.ends_with("weight"));
      }))
    return;
  std::map<std::string, size_t> counts;
  weights.erase(std::remove_if(begin, weights.end(),
                               [&](const ModelTensor& t) {
                                 const std::string why = reason_to_leave(t);
                                 if (!why.empty()) ++counts[why];
                                 return !why.empty();
                               }),
                weights.end());
  std::string text;
  for (const auto& [why, count] : counts) add_word(text, fmt::format("{} {}", count, why));
  if (!text.empty())
    notes.push_back(fmt::format("left out, as quantising a model keeps them: {}; --all-tensors takes them", text));
}

// Tensors of numbers and FP4 weights; integers, single codes and single numbers are left out, with a note.
std::vector<ModelTensor> weights_of(const CompareJob& job, SourceHashes& sources, std::vector<std::string>& notes,
                                    std::vector<std::string>& left) {
  std::vector<ModelTensor> weights;
  for (const std::string& given : job.files) {
    const auto [path, entry] = split_entry(given);
    const bool is_only = std::filesystem::is_regular_file(path) && !path.ends_with(".safetensors") &&
                         !path.ends_with(".npz") && !path.ends_with(".gguf");
    if (is_only && job.is_told) {  // raw, or an opaque .npy: the options say what it is
      weights.push_back({.name = std::filesystem::path(path).filename().string(), .parts = {{path}}});
      continue;
    }
    // One tensor that is named needs no other part of its model.
    const std::vector<std::string> files = entry.empty()
                                               ? model_files({"compare", path, job.follow_links, job.files}, &notes)
                                               : std::vector<std::string>{path};
    sources.begin(files);
    const size_t first = weights.size();
    const bool keeps = !job.all_tensors && entry.empty() && !is_only;
    for (const ModelTensor& t : model_tensors(files, job.layouts)) {
      if (!entry.empty() && t.name != entry) continue;
      const bool is_named = !entry.empty() || is_only;
      if (const std::string& why = t.fault.empty() ? t.unknown : t.fault; !is_named && !why.empty()) {
        left.push_back(fmt::format("{}: not understood, left out: {}", t.name, why));
        continue;
      }
      if (!is_named && (!has_values(t) || matrix_rows(t.shape) * matrix_cols(t.shape) < 2))
        notes.push_back(fmt::format("{}: {} {} left out", t.name, t.type(), shape_text(t.shape)));
      else
        weights.push_back(t);
    }
    if (keeps) leave_kept(weights, first, notes);
    if (!entry.empty() && weights.empty()) throw Error("compare " + path + ": no tensor is called '" + entry + "'");
  }
  if (weights.empty())
    throw Error("compare: no tensor of real numbers in the files" +
                std::string(job.all_tensors ? "" : " that quantising a model does not keep; --all-tensors takes all"));
  return weights;
}

// The rows of another reader, each rotated.
class RotatedRows final : public RowReader {
 public:
  RotatedRows(std::unique_ptr<RowReader> rows, const HadamardSpec& h, const Dispatcher& backend)
      : rows_(std::move(rows)), h_(h), backend_(&backend) {}
  int64_t rows() const override { return rows_->rows(); }
  int64_t cols() const override { return hadamard_padded(h_, rows_->cols()); }
  bool reads_anywhere() const override { return rows_->reads_anywhere(); }
  std::unique_ptr<RowReader> copy() const override {
    return std::make_unique<RotatedRows>(rows_->copy(), h_, *backend_);
  }
  void read_rows(int64_t first, int64_t count, float* out, int threads) override {
    x_.resize(static_cast<size_t>(count * rows_->cols()));
    rows_->read_rows(first, count, x_.data(), threads);
    backend_->hadamard(view_of(x_.data(), count, rows_->cols()), h_, {}, false, out, threads);
  }

 private:
  std::unique_ptr<RowReader> rows_;
  HadamardSpec h_;
  const Dispatcher* backend_;
  std::vector<float> x_ = {};
};

// The smallest NMSE of `count` lines, of equal ones the first; none where no element is finite.
void mark_best(std::vector<CompareLine>& lines, size_t first, size_t count) {
  const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(first);
  const auto best =
      std::min_element(begin, begin + static_cast<std::ptrdiff_t>(count),
                       [](const CompareLine& a, const CompareLine& b) { return a.report.nmse() < b.report.nmse(); });
  best->best = best->report.has_finite();
}

// Every spec under every mask and rotation, of the first all specs first.
std::vector<CompareLine> settings_of(const CompareJob& job) {
  std::vector<CompareLine> settings;
  for (const std::string& mask : job.sparse) named_row("compare --sparse", mask, sparsity_table);
  if (!job.sparse.empty() && !job.hadamards.empty())
    throw Error("compare --hadamard: it mixes elements that --sparse keeps with others");
  for (const std::string& mask : job.sparse.empty() ? std::vector<std::string>{""} : job.sparse)
    for (const int size : job.hadamards.empty() ? std::vector<int>{0} : job.hadamards)
      for (const std::string& spec : job.specs) settings.push_back({"all", spec, mask, size});
  return settings;
}

}  // namespace

CompareResult compare_formats(const CompareJob& job) {
  std::vector<QuantSpec> specs;
  for (const std::string& words : job.specs) specs.push_back(quant_spec_from_words(words, "compare --specs"));
  if (specs.empty()) throw Error("compare: no spec to compare");
  CompareResult result;
  const std::vector<CompareLine> settings = settings_of(job);
  for (size_t i = 0; i < specs.size(); ++i)
    if (const std::string note = note_of(specs[i]); !note.empty()) result.notes.push_back(job.specs[i] + ": " + note);
  SourceHashes sources("compare", job.changed, job.threads);
  const std::vector<ModelTensor> weights = weights_of(job, sources, result.notes, result.left);
  result.totals = settings;
  BandOptions options = {.backend = job.backend, .threads = job.threads};
  std::vector<HadamardSpec> rotations(std::max<size_t>(job.hadamards.size(), 1));
  for (size_t i = 0; i < job.hadamards.size(); ++i)
    set_hadamard(rotations[i], Json{{"size", job.hadamards[i]}}, "compare --hadamard");
  const Dispatcher backend(job.backend);
  std::vector<QuantSpec> of_settings;  // under one rotation
  for (size_t i = 0; i < settings.size() / rotations.size(); ++i) {
    of_settings.push_back(specs[i % specs.size()]);
    const SparsityInfo* sparsity = find_row(sparsity_table, settings[i].sparse);
    options.sparsity.push_back(sparsity != nullptr ? sparsity->id : Sparsity::none);
    if (options.sparsity[i] != Sparsity::none) check_sparse(of_settings[i], "compare --sparse: " + settings[i].spec);
  }
  uint64_t bytes = 0;
  for (const ModelTensor& w : weights) bytes += w.bytes();
  ProgressCount progress(job.progress, bytes);
  for (const ModelTensor& w : weights) {
    OpenOptions open = job.open;
    open.entry.clear();
    WeightReader reader(w, open);
    const double share = static_cast<double>(w.bytes()) /
                         static_cast<double>(std::max<int64_t>(1, reader.rows() * reader.cols())) /
                         static_cast<double>(rotations.size());
    options.progress = [&](uint64_t elements) {
      progress.add(static_cast<uint64_t>(share * static_cast<double>(elements)), w.name);
    };
    std::vector<QuantizeReport> reports;
    for (const HadamardSpec& h : rotations) {
      std::optional<RotatedRows> rotated;
      RowReader* rows = &reader;
      if (h.size != 0) rows = &rotated.emplace(reader.copy(), h, backend);
      for (const QuantizeReport& r : quantize_bands(*rows, of_settings, options)) reports.push_back(r);
    }
    for (size_t i = 0; i < settings.size(); ++i) {
      result.lines.push_back(settings[i]);
      result.lines.back().tensor = w.name, result.lines.back().report = reports[i];
      result.totals[i].report.add(reports[i]);
    }
    for (const std::string& note : reader.notes()) result.notes.push_back(note);
    if (!w.layout_words().empty()) result.notes.push_back(fmt::format("{}: read as {}", w.name, w.layout_words()));
    if (const int64_t count = reports[0].nonfinite; count > 0)
      result.notes.push_back(fmt::format("{}: {} elements are not finite", w.name, count));
    mark_best(result.lines, result.lines.size() - settings.size(), settings.size());
  }
  mark_best(result.totals, 0, result.totals.size());
  sources.end();
  return result;
}

}  // namespace fp4
