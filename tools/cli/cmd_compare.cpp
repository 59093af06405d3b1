// `fp4sim compare`: what several formats make of the tensors of a model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "src/error.h"
#include "src/model/survey.h"
#include "src/spec_text.h"
#include "src/tensor_file/open_array.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct CompareOptions {
  std::vector<std::string> files, specs;
  bool json = false;
  BackendOptions backend;
  InputOptions input;
};

// Tensors of numbers and FP4 weights; integers, single codes and single numbers are left out, with a note.
std::vector<ModelTensor> weights_of(const CompareOptions& o, std::vector<std::string>& notes) {
  std::vector<ModelTensor> weights;
  for (const std::string& given : o.files) {
    const auto [path, entry] = split_entry(given);
    const bool is_only = std::filesystem::is_regular_file(path) && !path.ends_with(".safetensors") &&
                         !path.ends_with(".npz") && !path.ends_with(".gguf");
    if (is_only && !o.input.dtype.empty()) {  // raw, or an opaque .npy: the options say what it is
      weights.push_back({std::filesystem::path(path).filename().string(), "", nullptr, {{path}}, {}});
      continue;
    }
    for (const ModelTensor& t : model_tensors(model_files("compare", path))) {
      if (!entry.empty() && t.name != entry) continue;
      const bool is_named = !entry.empty() || is_only;
      if (!is_named && (!has_values(t) || matrix_rows(t.shape) * matrix_cols(t.shape) < 2))
        notes.push_back(fmt::format("{}: {} {} left out", t.name, t.type(), shape_text(t.shape)));
      else
        weights.push_back(t);
    }
    if (!entry.empty() && weights.empty()) throw Error("compare " + path + ": no tensor is called '" + entry + "'");
  }
  if (weights.empty()) throw Error("compare: no tensor of real numbers in the files");
  return weights;
}

struct Line {
  std::string tensor, spec;
  QuantizeReport report;
  bool best = false;
};

// The smallest NMSE of `count` lines; of equal ones the first.
void mark_best(std::vector<Line>& lines, size_t first, size_t count) {
  const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(first);
  std::min_element(begin, begin + static_cast<std::ptrdiff_t>(count), [](const Line& a, const Line& b) {
    return a.report.nmse() < b.report.nmse();
  })->best = true;
}

nlohmann::ordered_json json_of(const Line& l) {
  const QuantizeReport& r = l.report;
  return {{"tensor", l.tensor},
          {"spec", l.spec},
          {"elements", r.rows * r.cols},
          {"nmse", r.nmse()},
          {"decibels", r.error_squares > 0 ? nlohmann::ordered_json(r.decibels()) : nullptr},
          {"largest_error", r.largest_error},
          {"clipped", r.share(r.clipped)},
          {"zeros", r.share(r.zeros)},
          {"nonfinite", r.nonfinite},
          {"bits_per_element", r.bits_per_element()},
          {"best", l.best}};
}

void run_compare(const CompareOptions& o) {
  std::vector<QuantSpec> specs;
  for (const std::string& words : o.specs) specs.push_back(quant_spec_from_words(words, "compare --specs"));
  std::vector<std::string> notes;
  const std::vector<ModelTensor> weights = weights_of(o, notes);
  std::vector<Line> lines, totals;
  for (const std::string& words : o.specs) totals.push_back({"all", words, {}});
  SurveyOptions options;
  options.backend = o.backend.backend;
  options.threads = o.backend.thread_count();
  uint64_t bytes = 0;
  for (const ModelTensor& w : weights) bytes += w.bytes();
  std::optional<ByteProgress> progress(bytes);
  for (const ModelTensor& w : weights) {
    OpenOptions open = o.input.open_options();
    open.entry.clear();
    WeightReader reader(w, open);
    const double share =
        static_cast<double>(w.bytes()) / static_cast<double>(std::max<int64_t>(1, reader.rows() * reader.cols()));
    options.progress = [&](uint64_t elements) {
      progress->add(static_cast<uint64_t>(share * static_cast<double>(elements)), w.name);
    };
    const std::vector<QuantizeReport> reports = survey(reader, specs, options);
    for (size_t i = 0; i < specs.size(); ++i) {
      lines.push_back({w.name, o.specs[i], reports[i]});
      totals[i].report.add(reports[i]);
    }
    for (const std::string& note : reader.notes()) notes.push_back(note);
    mark_best(lines, lines.size() - specs.size(), specs.size());
  }
  progress.reset();
  mark_best(totals, 0, totals.size());
  if (weights.size() > 1) lines.insert(lines.end(), totals.begin(), totals.end());
  print_notes(notes);
  if (o.json) {
    auto rows = nlohmann::ordered_json::array();
    for (const Line& l : lines) rows.push_back(json_of(l));
    return print_json({{"rows", rows}});
  }
  Table table = {{{"tensor"},
                  {"spec"},
                  {"NMSE", Align::right},
                  {"dB", Align::right},
                  {"max error", Align::right},
                  {"clipped", Align::right},
                  {"zero", Align::right},
                  {"bits", Align::right},
                  {"best"}},
                 {}};
  for (const Line& l : lines) {
    const QuantizeReport& r = l.report;
    table.rows.push_back({l.tensor, l.spec, fmt::format("{:.3e}", r.nmse()), fmt::format("{:.2f}", r.decibels()),
                          fmt::format("{:.3g}", r.largest_error), fmt::format("{:.2f} %", 100 * r.share(r.clipped)),
                          fmt::format("{:.2f} %", 100 * r.share(r.zeros)), fmt::format("{:.3g}", r.bits_per_element()),
                          l.best ? "*" : ""});
  }
  print_table(table);
}

void add_compare(CLI::App& app, Invocation&) {
  auto o = std::make_shared<CompareOptions>();
  app.add_option("FILE", o->files, "Tensors: .npy, .npz, .safetensors, .gguf, raw, or a folder of shards")
      ->required()
      ->type_name("FILE|DIR");
  app.add_option("--specs", o->specs, "Formats, apart by blanks: PRESET or PRESET,key=value,..")
      ->required()
      ->type_name("SPEC");
  add_backend_options(app, o->backend);
  add_input_options(app, o->input);
  add_json_option(app, o->json);
  app.callback([o] { run_compare(*o); });
  set_example(app, "fp4sim compare x.npy --specs mxfp4 nvfp4 nvfp4,scale_rule=four_over_six");
}

}  // namespace

Command command_compare() { return {"compare", "What several formats make of the tensors of a model", add_compare}; }

}  // namespace fp4::tools
