// `fp4sim quantize`: a tensor file to codes, scales, tensor scale, decoded values and manifest.
#include <fmt/format.h>

#include "src/spec_text.h"
#include "tools/cli/explain.h"
#include "tools/cli/quantize_files.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct QuantizeOptions {
  QuantizeJob job;
  std::string spec;
  PlaceOptions place;
  BackendOptions backend;
  InputOptions input;
  bool json = false;
  bool explains = false;
};

std::string percent(double share) { return fmt::format("{:.4g} %", 100 * share); }

void run_quantize(QuantizeOptions& o, const Invocation& invocation) {
  o.job.spec = quant_spec_from_words(o.spec, "--spec");
  o.job.preset = preset_of_words(o.spec);
  o.job.open = o.input.open_options();
  o.job.place = o.place.place();
  o.job.backend = o.backend.backend;
  o.job.threads = o.backend.thread_count();
  o.job.command_line = invocation.command_line;
  const QuantizeReport report = quantize_to_folder(o.job);
  if (o.json) {
    print_json({{"rows", report.rows},
                {"cols", report.cols},
                {"nmse", report.nmse()},
                {"clipped", report.share(report.clipped)},
                {"zeros", report.share(report.zeros)},
                {"underflows", report.share(report.underflows)},
                {"nonfinite", report.nonfinite},
                {"largest_error", report.largest_error},
                {"decibels", report.error_squares > 0 ? nlohmann::ordered_json(report.decibels()) : nullptr},
                {"bits_per_element", report.bits_per_element()},
                {"bytes", report.bytes},
                {"backend", report.backend},
                {"out", o.job.out}});
    return;
  }
  std::vector<std::pair<std::string, std::string>> fields = {
      {"elements", fmt::format("{} x {}", grouped(report.rows), grouped(report.cols))},
      {"NMSE", fmt::format("{:.6g} ({:.2f} dB)", report.nmse(), report.decibels())},
      {"error", fmt::format("at most {:.6g}", report.largest_error)},
      {"stored", fmt::format("{} bytes, {:.4g} bits an element", grouped(static_cast<int64_t>(report.bytes)),
                             report.bits_per_element())},
      {"clipped", percent(report.share(report.clipped))},
      {"zero", fmt::format("{} ({} were not zero)", percent(report.share(report.zeros)),
                           percent(report.share(report.underflows)))}};
  if (report.nonfinite > 0) fields.push_back({"not finite", grouped(report.nonfinite) + " elements, left out above"});
  fields.push_back({"backend", report.backend});
  fields.push_back({"written", o.job.out});
  print_fields(fields);
  if (o.explains) print_engines(cpu::panel_counts());
}

void add_quantize(CLI::App& app, Invocation& invocation) {
  auto o = std::make_shared<QuantizeOptions>();
  app.add_option("IN", o->job.in,
                 "Tensor of any rank, taken as [leading axes, last axis]: .npy, .npz, .safetensors, raw")
      ->required()
      ->type_name("FILE");
  app.add_option("--spec", o->spec, "PRESET, FILE.json or key=value,...; also PRESET,key=value,...")
      ->required()
      ->type_name("SPEC");
  app.add_option("-o,--out", o->job.out,
                 "Folder for codes.npy, scales.npy, tensor_scale.npy, dequantized.npy, manifest.json")
      ->required()
      ->type_name("DIR");
  app.alias("quantise");
  app.add_flag("--transpose", o->job.transpose, "Quantise the transpose of IN: blocks along axis 0");
  auto* nibbles = app.add_option("--nibbles", o->job.nibbles,
                                 "Order of FP4 codes (default low_first): `fp4sim list layouts` has all");
  nibbles->type_name("LAYOUT");
  app.add_flag_callback(
         "--unpacked", [o] { o->job.nibbles = "unpacked"; }, "The same as --nibbles unpacked")
      ->excludes(nibbles);
  app.add_option("--scale-layout", o->job.scale_layout, "Order of one-byte scales (default linear): 128x4, 8x4, ..")
      ->type_name("LAYOUT");
  add_place_options(app, o->place);
  add_backend_options(app, o->backend);
  add_input_options(app, o->input);
  add_force_option(app, o->job.force);
  add_sync_option(app);
  add_json_option(app, o->json);
  app.add_flag("--explain", o->explains, "Print which engines quantised, panel by panel, and why others declined")
      ->excludes("--json");
  app.callback([o, &invocation] { run_quantize(*o, invocation); });
  set_example(app,
              "fp4sim quantize x.npy --spec nvfp4,rounding=stochastic --seed 1 --out out\n"
              "  fp4sim quantize x.npy --spec nvfp4 --scale-layout 128x4 --nibbles marlin_uint32 --out tiles\n"
              "  fp4sim quantize w.safetensors:layer0 --spec mxfp4,scale_rule=rceil,block=32x32 --out out");
}

struct BackOptions {
  std::string folder, out;
  bool force = false, changed = false;
  BackendOptions backend;
};

void add_back(CLI::App& app, Invocation&) {
  auto o = std::make_shared<BackOptions>();
  app.add_option("DIR", o->folder, "Folder written by `fp4sim quantize`")->required()->type_name("DIR");
  app.add_option("-o,--out", o->out, "Output .npy, float32")->required()->type_name("FILE");
  add_backend_options(app, o->backend);
  add_force_option(app, o->force);
  add_sync_option(app);
  app.add_flag("--changed", o->changed, "Decode files that were changed since: their hashes are not looked at");
  app.callback([o] {
    dequantize_folder(o->folder, o->out, o->force, o->backend.backend, o->backend.thread_count(), o->changed);
  });
  set_example(app, "fp4sim dequantize out --out decoded.npy");
}

}  // namespace

Command command_quantize() {
  return {"quantize", "Quantise a tensor file to codes, scales and decoded values", add_quantize};
}

Command command_dequantize() { return {"dequantize", "Decode what quantize wrote", add_back}; }

}  // namespace fp4::tools
