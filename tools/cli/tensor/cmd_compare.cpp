// `fp4sim compare`: what several formats make of the tensors of a model.
#include <fmt/format.h>

#include <optional>

#include "src/arith/report_json.h"
#include "src/model/compare_formats.h"
#include "src/model/model_files.h"
#include "src/text/error.h"
#include "tools/cli/options.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct CompareOptions {
  std::vector<std::string> files, specs, sparse;
  std::vector<int> hadamards;
  std::string nibbles, scale_layout;
  bool json = false, allow_left = false, changed = false, all_tensors = false, follow_links = false;
  BackendOptions backend;
  InputOptions input;
};

nlohmann::ordered_json line_json(const CompareLine& l) {
  nlohmann::ordered_json out = {{"tensor", l.tensor}, {"spec", l.spec}};
  if (!l.sparse.empty()) out["sparse"] = l.sparse;
  if (l.hadamard != 0) out["hadamard"] = l.hadamard;
  out.update(report_json(l.report, {"elements", "nmse", "decibels", "largest_error", "clipped", "zeros", "nonfinite",
                                    "bits_per_element"}));
  out["best"] = l.best;
  return out;
}

void print_lines(const std::vector<CompareLine>& lines, bool json) {
  if (json) {
    auto rows = nlohmann::ordered_json::array();
    for (const CompareLine& l : lines) rows.push_back(line_json(l));
    return print_json({{"rows", rows}});
  }
  Table table = {{"tensor", "spec", ">NMSE", ">dB", ">max error", ">clipped", ">zero", ">bits", "best"}, {}};
  for (const CompareLine& l : lines) {
    const QuantizeReport& r = l.report;
    const std::string how = !l.sparse.empty() ? ", " + l.sparse
                            : l.hadamard != 0 ? fmt::format(", H{}", l.hadamard)
                                              : "";
    table.rows.push_back({l.tensor, l.spec + how, fmt::format("{:.3e}", r.nmse()), fmt::format("{:.2f}", r.decibels()),
                          fmt::format("{:.3g}", r.largest_error), fmt::format("{:.2f} %", 100 * r.share(r.clipped)),
                          fmt::format("{:.2f} %", 100 * r.share(r.zeros)), fmt::format("{:.3g}", r.bits_per_element()),
                          l.best ? "*" : ""});
  }
  print_table(table);
}

void run_compare(const CLI::App& app, const CompareOptions& o) {
  CompareJob job = {o.files, o.specs, o.sparse, o.hadamards, o.input.open_options(), !o.input.dtype.empty()};
  job.backend = o.backend.backend;
  job.threads = o.backend.thread_count();
  if (app.count("--nibbles") > 0) job.layouts.nibbles = golden::code_layout_of("--nibbles", o.nibbles);
  if (app.count("--scale-layout") > 0) job.layouts.scales = golden::scale_layout_of("--scale-layout", o.scale_layout);
  job.changed = o.changed;
  job.follow_links = o.follow_links;
  job.all_tensors = o.all_tensors;
  std::optional<ByteProgress> progress(std::in_place);
  job.progress = progress->progress();
  const CompareResult result = compare_formats(job);
  progress.reset();
  std::vector<CompareLine> lines = result.lines;
  if (lines.size() > result.totals.size()) lines.insert(lines.end(), result.totals.begin(), result.totals.end());
  print_notes(result.notes);
  print_notes(result.left);
  print_lines(lines, o.json);
  if (!result.left.empty() && !o.allow_left)
    throw Error(fmt::format("compare: {} tensors look quantised and are not understood: they are not in the table; "
                            "--allow-left takes this as a warning",
                            result.left.size()),
                Error::failed);
}

}  // namespace

void command_compare(CLI::App& app, Invocation&) {
  auto o = std::make_shared<CompareOptions>();
  option(app, "FILE FILE|DIR", o->files,
         "Tensors: .npy, .npz, .safetensors, .gguf, raw, a folder of shards, or - for standard input")
      ->required();
  keep_older_names(
      option(app, "--specs,--spec SPEC", o->specs, "Formats, apart by blanks: PRESET or PRESET,key=value,..")
          ->required());
  option(app, "--sparse MASK", o->sparse,
         "Masks of rows by magnitude: none, 2:4, 4:8 (pairs); every spec under each (repeatable)");
  option(app, "--hadamard SIZE", o->hadamards,
         "Rotations of rows, 0 (none), 16, 32, 64, 128 or 256: every spec under each (repeatable)");
  option(app, "--nibbles NIBBLES", o->nibbles,
         "Order of a model's FP4 codes, low_first or high_first (default: its marks)");
  option(app, "--scale-layout LAYOUT", o->scale_layout,
         "Order of the scales of a model's FP4 weights: linear, 128x4, .. (default: its marks)");
  app.add_flag("--all-tensors", o->all_tensors,
               "Of a model also norms, biases, embeddings, heads: what `quantize --scheme` leaves as it is");
  app.add_flag("--allow-left", o->allow_left, "Leave out what looks quantised and is not understood, with exit code 0");
  app.add_flag("--changed", o->changed, "Read shards that were changed since fp4sim wrote them: no hash is looked at");
  app.add_flag("--follow-links", o->follow_links, follow_links_doc);
  add_backend_options(app, o->backend);
  add_input_options(app, o->input);
  add_json_option(app, o->json);
  app.callback([o, &app] {
    for (std::string& file : o->files) file = input_path(file, "compare");
    run_compare(app, *o);
  });
  set_example(app,
              "fp4sim compare x.npy --specs mxfp4 nvfp4 nvfp4,scale_rule=four_over_six\n"
              "  fp4sim compare x.npy --specs mxfp4 nvfp4 --hadamard 0 16");
}

}  // namespace fp4::tools
