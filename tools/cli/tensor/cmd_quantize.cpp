// `fp4sim quantize`: a tensor file to codes, scales, tensor scale, decoded values and manifest, or a model to the FP4
// weights of a checkpoint scheme; `fp4sim dequantize`: the way back of both.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>

#include "src/arith/report_json.h"
#include "src/arith/spec_note.h"
#include "src/arith/spec_text.h"
#include "src/files/open_array.h"
#include "src/model/model_files.h"
#include "src/model/model_write.h"
#include "src/stream/quantize_files.h"
#include "src/text/error.h"
#include "tools/cli/progress_line.h"
#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"
#include "tools/cli/tensor/explain.h"
#include "tools/cli/usage.h"

namespace fp4::tools {
namespace {

struct QuantizeOptions {
  folder::QuantizeJob job;
  std::string spec;
  PlaceOptions place;
  BackendOptions backend;
  InputOptions input;
  bool json = false;
  bool explains = false;
  std::string scheme, words, activations, fuse = "auto";
  ModelJob model;  // what --scheme reads of the options
};

// How many tensors have each outcome, with their bytes before and after.
struct OutcomeCount {
  int64_t tensors = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
};

// The tensors that were converted, one a line, then every outcome; what is not understood or not finite by name.
// long: two tables and their JSON, of one pass over the tensors
void print_model(const ModelResult& result, const ModelJob& job, bool json) {
  std::array<OutcomeCount, std::size(outcome_table)> counts{};
  OutcomeCount total;
  QuantizeReport all;
  auto rows = nlohmann::ordered_json::array();
  Table table = {{"tensor", "became", "shape", ">dB", ">max error", ">bits", ">not finite"}, {}};
  std::vector<std::string> notes;
  for (const ModelLine& l : result.lines) {
    for (OutcomeCount* c : {&counts[static_cast<size_t>(l.outcome)], &total}) {
      ++c->tensors;
      c->bytes_in += l.bytes_in;
      c->bytes_out += l.bytes_out;
    }
    std::string decibels, error, bits;
    if (l.report.rows > 0) {
      all.add(l.report);
      decibels = fmt::format("{:.2f}", l.report.decibels());
      error = fmt::format("{:.3g}", l.report.largest_error);
      bits = fmt::format("{:.4g}", l.report.bits_per_element());
    }
    if (l.is_converted())
      table.rows.push_back({l.tensor, l.became, shape_text(l.shape), decibels, error, bits,
                            l.report.nonfinite > 0 ? grouped(l.report.nonfinite) : ""});
    if (l.report.nonfinite > 0)
      notes.push_back(fmt::format("{}: {} values are not finite", l.tensor, grouped(l.report.nonfinite)));
    if (!l.read_as.empty()) notes.push_back(fmt::format("{}: read as {}", l.tensor, l.read_as));
    if (l.outcome == Fate::left)
      notes.push_back(fmt::format("{}: not understood, stays as it is: {}", l.tensor, l.rule));
    rows.push_back(to_json(l));
  }
  notes.insert(notes.end(), result.notes.begin(), result.notes.end());
  print_notes(notes);
  const std::string spec = job.scheme == nullptr ? "" : job.words.empty() ? job.scheme->spec : job.words;
  auto outcomes = nlohmann::ordered_json::object();
  Table summary = {{"outcome", ">tensors", ">bytes before", ">after", "meaning"}, {}};
  for (const auto& info : outcome_table) {
    const OutcomeCount& c = counts[static_cast<size_t>(info.id)];
    outcomes[info.name] = c.tensors;
    if (c.tensors > 0)
      summary.rows.push_back({info.name, grouped(c.tensors), grouped(c.bytes_in), grouped(c.bytes_out), info.doc});
  }
  if (json)
    return print_json({{"rows", rows},
                       {"outcomes", outcomes},
                       {"spec", spec.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(spec)},
                       {"bytes_in", total.bytes_in},
                       {"bytes_out", total.bytes_out},
                       {"nmse", all.rows > 0 ? nlohmann::ordered_json(all.nmse()) : nullptr},
                       {"notes", result.notes},
                       {"seconds", result.seconds},
                       {"out", job.is_dry ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(job.out)}});
  print_table(table);
  fmt::print("\n");
  print_table(summary);
  if (counts[static_cast<size_t>(Fate::quantised)].tensors > 0) fmt::print("\nquantised with --spec {}\n", spec);
  fmt::print("\n{} tensors: {} bytes to {} {}", result.lines.size(), grouped(total.bytes_in), grouped(total.bytes_out),
             job.is_dry ? "(--dry-run: nothing is written)" : "in " + job.out);
  fmt::print("{}\n", all.rows > 0 ? fmt::format("; {:.2f} dB", all.decibels()) : "");
}

// The words of --nibbles and --scale-layout for a model; unset where an option was not given.
Layouts layouts_of(const CLI::App& app, const std::string& nibbles, const std::string& scales) {
  Layouts layouts;
  if (app.count("--nibbles") > 0) layouts.nibbles = golden::code_layout_of("--nibbles", nibbles);
  if (app.count("--scale-layout") > 0) layouts.scales = golden::scale_layout_of("--scale-layout", scales);
  return layouts;
}

ModelResult shown(ModelJob& job) {
  ByteProgress line;
  job.progress = line.progress();
  return convert_model(job);
}

void run_model(const CLI::App& app, QuantizeOptions& o, const Invocation& invocation) {
  refuse_options(
      app, {"--transpose", "--unpacked", "--random-words", "--dtype", "--shape", "--entry", "--bf16", "--explain"},
      "one tensor with --spec, not to --scheme");
  ModelJob job = o.model;
  job.in = o.job.in;
  job.out = o.job.out;
  job.scheme = &scheme_of("--scheme", o.scheme);
  job.words = o.spec;
  job.activations = activations_of("--activations", o.activations, *job.scheme);
  job.fuse = fuse_rules_of("--fuse", o.fuse);
  job.layouts = layouts_of(app, o.job.nibbles, o.job.scale_layout);
  job.place = o.place.place();
  job.force = o.job.force;
  job.backend = o.backend.backend;
  job.threads = o.backend.thread_count();
  job.command_line = invocation.command_line;
  print_model(shown(job), job, o.json);
}

std::string percent(double share) { return fmt::format("{:.4g} %", 100 * share); }

// A file of several tensors is a model, or one of them is meant.
void refuse_whole_model(const folder::QuantizeJob& job) {
  const auto [path, entry] = split_entry(job.in);
  if (!path.ends_with(".safetensors") || !entry.empty() || !job.open.entry.empty()) return;
  const std::vector<TensorInfo> tensors = list_tensors(path);
  if (tensors.size() > 1)
    throw Error(
        fmt::format("quantize {0}: holds {1} tensors; --scheme NAME quantises all of them as a model (`fp4sim list "
                    "checkpoints`), {0}:{2} is one",
                    job.in, tensors.size(), tensors.front().name));
}

void run_quantize(const CLI::App& app, QuantizeOptions& o, const Invocation& invocation) {
  if (std::filesystem::is_directory(o.job.in) || o.job.in.ends_with(".gguf"))
    throw Error(fmt::format("quantize {}: a model needs --scheme NAME (`fp4sim list checkpoints`)", o.job.in));
  if (o.spec.empty()) throw Error("quantize: --spec is required (`fp4sim list presets`), or --scheme for a model");
  refuse_options(app,
                 {"--tensors", "--keep", "--keep-only", "--activations", "--fuse", "--allow-left", "--changed",
                  "--follow-links", "--dry-run"},
                 "--scheme");
  o.job.spec = quant_spec_from_words(o.spec, "--spec");
  if (const std::string note = note_of(o.job.spec); !note.empty()) print_notes({"--spec: " + note});
  o.job.preset = preset_of_words(o.spec);
  o.job.open = o.input.open_options();
  refuse_whole_model(o.job);
  o.job.place = o.place.place();
  o.job.random_words = load_random_words("--random-words", o.words);
  o.job.backend = o.backend.backend;
  o.job.threads = o.backend.thread_count();
  o.job.command_line = invocation.command_line;
  std::optional<ByteProgress> line(std::in_place);
  o.job.progress = line->progress();
  o.job.note = [](const std::string& note) { print_notes({note}); };
  const QuantizeReport report = folder::quantize_to_folder(o.job);
  line.reset();
  if (o.json) {
    nlohmann::ordered_json out =
        report_json(report, {"rows", "cols", "nmse", "clipped", "zeros", "underflows", "nonfinite", "largest_error",
                             "decibels", "bits_per_element", "bytes", "backend"});
    out["out"] = o.job.out;
    return print_json(out);
  }
  std::vector<std::pair<std::string, std::string>> fields = {
      {"elements", fmt::format("{} x {}", grouped(report.rows), grouped(report.cols))},
      {"NMSE", fmt::format("{:.6g} ({:.2f} dB)", report.nmse(), report.decibels())},
      {"error", fmt::format("at most {:.6g}", report.largest_error)},
      {"stored", fmt::format("{} bytes, {:.4g} bits an element", grouped(report.bytes), report.bits_per_element())},
      {"clipped", percent(report.share(report.clipped))},
      {"zero", fmt::format("{} ({} were not zero)", percent(report.share(report.zeros)),
                           percent(report.share(report.underflows)))}};
  if (report.nonfinite > 0) fields.push_back({"not finite", grouped(report.nonfinite) + " elements, left out above"});
  fields.push_back({"backend", report.backend});
  fields.push_back({"written", o.job.out});
  print_fields(fields);
  if (o.explains) print_engines(cpu::quantize_uses.read());
}

struct BackOptions {
  std::string type = "f32", nibbles, scale_layout;
  ModelJob model;
  bool json = false;
  BackendOptions backend;
};

void run_back(const CLI::App& app, const BackOptions& o, const Invocation& invocation) {
  ModelJob job = o.model;
  if (!is_model(job.in)) {
    refuse_options(app,
                   {"--type", "--tensors", "--json", "--allow-left", "--follow-links", "--nibbles", "--scale-layout"},
                   fmt::format("models, and {} is none", job.in));
    return folder::dequantize_folder(job.in, job.out, job.force, o.backend.backend, o.backend.thread_count(),
                                     job.changed);
  }
  job.real = decoded_type_of("--type", o.type);
  job.layouts = layouts_of(app, o.nibbles, o.scale_layout);
  job.backend = o.backend.backend;
  job.threads = o.backend.thread_count();
  job.command_line = invocation.command_line;
  print_model(shown(job), job, o.json);
}

}  // namespace

// long: one table of options
void command_quantize(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<QuantizeOptions>();
  option(app, "IN FILE|DIR", o->job.in,
         "Tensor of any rank, taken as [leading axes, last axis]: .npy, .npz, .safetensors, raw; with --scheme a "
         "model: folder of shards, .safetensors, .gguf; - is standard input")
      ->required();
  keep_older_names(
      option(app, "--spec,--specs SPEC", o->spec, "PRESET, FILE.json or key=value,...; also PRESET,key=value,..."));
  option(app, "-o,--out DIR", o->job.out,
         "Folder for codes.npy, scales.npy, tensor_scale.npy, dequantized.npy, manifest.json")
      ->required();
  app.alias("quantise");
  app.add_flag("--transpose", o->job.transpose, "Quantise the transpose of IN: blocks along axis 0");
  auto* nibbles = app.add_option("--nibbles", o->job.nibbles,
                                 "Order of FP4 codes (default low_first): `fp4sim list layouts` has all");
  nibbles->type_name("NIBBLES");
  app.add_flag_callback(
         "--unpacked", [o] { o->job.nibbles = "unpacked"; }, "The same as --nibbles unpacked")
      ->excludes(nibbles);
  option(app, "--scale-layout LAYOUT", o->job.scale_layout,
         "Order of one-byte scales (default linear): 128x4, 8x4, ..");
  option(app, "--scheme NAME", o->scheme, "Write a model's weights as `fp4sim list checkpoints` says");
  option(app, "--tensors PATTERN", o->model.tensors,
         "Weights to quantise, patterns with * and ? (default: every matrix)");
  auto* keep = app.add_option("--keep", o->model.keep,
                              "Tensors that stay as they are besides those of `fp4sim list keep-rules` (embeddings, "
                              "heads, norms, routers, biases, convolutions, vision, LoRA)");
  keep->type_name("PATTERN");
  option(app, "--keep-only PATTERN", o->model.keep_only,
         "The same, instead of those rules; none: quantise every matrix")
      ->excludes(keep);
  option(app, "--activations WORD", o->activations,
         "What the engine does with inputs: none, dynamic, static (`fp4sim list activations`; default: the scheme's)");
  option(app, "--fuse auto|none|GROUPS.json", o->fuse,
         "Weights that share a tensor scale: auto (q/k/v, gate/up, experts: `fp4sim list fused-groups`; the default), "
         "none, or groups in a file");
  app.add_flag("--allow-left", o->model.allow_left,
               "Leave what looks quantised and is not understood, instead of exit code 1");
  app.add_flag("--changed", o->model.changed,
               "Read shards that were changed since fp4sim wrote them: no hash is looked at");
  app.add_flag("--follow-links", o->model.follow_links, follow_links_doc);
  app.add_flag("--dry-run", o->model.is_dry, "Say what would become of each tensor of a model, and write nothing");
  add_place_options(app, o->place);
  add_random_words_option(app, "--random-words", o->words, "for element rounding");
  add_backend_options(app, o->backend);
  add_input_options(app, o->input);
  add_force_option(app, o->job.force);
  add_sync_option(app);
  add_json_option(app, o->json);
  app.add_flag("--explain", o->explains, "Print which engines quantised, panel by panel, and why others declined")
      ->excludes("--json");
  app.callback([o, &app, &invocation] {
    o->job.in = input_path(o->job.in, "quantize");
    (o->scheme.empty() ? run_quantize : run_model)(app, *o, invocation);
  });
  set_example(app,
              "fp4sim quantize x.npy --spec nvfp4,rounding=stochastic --seed 1 --out out\n"
              "  fp4sim quantize x.npy --spec nvfp4 --scale-layout 128x4 --nibbles marlin_uint32 --out tiles\n"
              "  fp4sim quantize w.safetensors:layer0 --spec mxfp4,scale_rule=rceil,block=32x32 --out out\n"
              "  fp4sim quantize my_model --scheme modelopt_nvfp4 --out my_model_nvfp4");
}

void command_dequantize(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<BackOptions>();
  option(app, "DIR DIR", o->model.in,
         "Folder written by `fp4sim quantize`, or a model: folder of shards, .safetensors, .gguf")
      ->required();
  option(app, "-o,--out FILE|DIR", o->model.out, "Output .npy, float32; for a model a folder")->required();
  option(app, "--type T", o->type, "Of a model's decoded weights: f32 (default) or bf16");
  option(app, "--tensors PATTERN", o->model.tensors,
         "FP4 and FP8 weights of a model to decode, patterns with * and ? (default: all)");
  option(app, "--nibbles NIBBLES", o->nibbles,
         "Order of a model's FP4 codes, low_first or high_first (default: its marks)");
  option(app, "--scale-layout LAYOUT", o->scale_layout,
         "Order of the scales of a model's FP4 weights: linear, 128x4, .. (default: its marks)");
  app.add_flag("--allow-left", o->model.allow_left,
               "Leave what looks quantised and is not understood, instead of exit code 1");
  add_backend_options(app, o->backend);
  add_force_option(app, o->model.force);
  add_sync_option(app);
  app.add_flag("--changed", o->model.changed, "Decode files that were changed since: their hashes are not looked at");
  app.add_flag("--follow-links", o->model.follow_links, follow_links_doc);
  add_json_option(app, o->json);
  app.callback([o, &app, &invocation] { run_back(app, *o, invocation); });
  set_example(app,
              "fp4sim dequantize out --out decoded.npy\n"
              "  fp4sim dequantize my_model_nvfp4 --type bf16 --out decoded_model");
}

}  // namespace fp4::tools
