// The C interface of whole files: structures of C into the jobs of the core.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "src/arith/spec_text.h"
#include "src/c_api/c_guard.h"
#include "src/model/compare_formats.h"
#include "src/model/model_files.h"
#include "src/model/model_write.h"
#include "src/stream/quantize_files.h"
#include "src/threads/parallel.h"

namespace {

using namespace fp4;
using c::guarded;
using c::require;

const char* text(const char* given, const char* otherwise = "") { return given != nullptr ? given : otherwise; }

std::vector<std::string> list(const char* const* texts) {
  std::vector<std::string> out;
  for (; texts != nullptr && *texts != nullptr; ++texts) out.emplace_back(*texts);
  return out;
}

// Members that every job has, by the same names.
template <class Job>
void set_run(Job& job, const fp4sim_run& run) {
  job.backend = text(run.backend, "auto");
  job.threads = run.threads > 0 ? run.threads : threads_of_machine();
  if (run.progress != nullptr)
    job.progress = [run](uint64_t done, uint64_t all, const std::string& tensor) {
      run.progress(done, all, tensor.c_str(), run.user);
    };
}

OpenOptions open_of(const fp4sim_input& input) {
  return open_options_of(text(input.dtype), text(input.shape), text(input.entry), input.bf16 != 0);
}

Layouts layouts_of(const char* nibbles, const char* scales) {
  Layouts layouts;
  if (nibbles != nullptr) layouts.nibbles = golden::code_layout_of("nibbles", nibbles);
  if (scales != nullptr) layouts.scales = golden::scale_layout_of("scale_layout", scales);
  return layouts;
}

fp4sim_report report_of(const QuantizeReport& r) {
  return {r.rows * r.cols,
          r.nmse(),
          r.decibels(),
          r.largest_error,
          r.share(r.clipped),
          r.share(r.zeros),
          r.share(r.underflows),
          r.nonfinite,
          r.bits_per_element(),
          r.bytes,
          1,
          0};
}

fp4sim_report report_of(const ModelResult& result) {
  QuantizeReport all;
  int64_t kept = 0, dropped = 0;
  for (const ModelLine& line : result.lines) {
    if (line.report.rows > 0) all.add(line.report);
    kept += line.became == "kept" ? 1 : 0;
    dropped += line.outcome == Fate::dropped ? 1 : 0;
    if (line.report.rows == 0) all.nonfinite += line.report.nonfinite;
  }
  fp4sim_report report = report_of(all);
  report.tensors = static_cast<int64_t>(result.lines.size()) - dropped;
  report.kept = kept;
  return report;
}

fp4sim_report quantize_model(const char* in, const char* out, const fp4sim_quantize_options& o) {
  const bool has_input =
      o.input.dtype != nullptr || o.input.shape != nullptr || o.input.entry != nullptr || o.input.bf16 != 0;
  if (o.transpose != 0 || has_input)
    throw Error("fp4sim_quantize_file: input and transpose are for one tensor, not for a scheme");
  ModelJob job;
  set_run(job, o.run);
  job.in = in;
  job.out = out;
  job.scheme = &scheme_of("scheme", o.scheme);
  job.words = text(o.spec);
  job.tensors = list(o.tensors);
  job.keep = list(o.keep);
  job.keep_only = list(o.keep_only);
  if (!job.keep.empty() && !job.keep_only.empty())
    throw Error("fp4sim_quantize_file: keep adds to the rules, keep_only replaces them: one of the two");
  job.activations = activations_of("activations", text(o.activations), *job.scheme);
  job.fuse = fuse_rules_of("fuse", text(o.fuse, "auto"));
  job.layouts = layouts_of(o.nibbles, o.scale_layout);
  job.allow_left = o.allow_left != 0;
  job.changed = o.changed != 0;
  job.follow_links = o.follow_links != 0;
  job.place = c::place_of(o.place);
  job.force = o.run.force != 0;
  job.command_line = "fp4sim_quantize_file";
  return report_of(convert_model(job));
}

fp4sim_report quantize_tensor(const char* in, const char* out, const fp4sim_quantize_options& o) {
  if (o.spec == nullptr) throw Error("fp4sim_quantize_file: neither a spec nor a scheme");
  if (o.tensors != nullptr || o.keep != nullptr || o.keep_only != nullptr || o.activations != nullptr ||
      o.fuse != nullptr || o.allow_left != 0 || o.changed != 0 || o.follow_links != 0)
    throw Error(
        "fp4sim_quantize_file: tensors, keep, keep_only, activations, fuse, allow_left, changed and follow_links "
        "belong to a scheme");
  folder::QuantizeJob job;
  set_run(job, o.run);
  job.in = in;
  job.out = out;
  job.open = open_of(o.input);
  job.spec = quant_spec_from_words(o.spec, "spec");
  job.preset = preset_of_words(o.spec);
  job.place = c::place_of(o.place);
  job.transpose = o.transpose != 0;
  job.nibbles = text(o.nibbles, "low_first");
  job.scale_layout = text(o.scale_layout, "linear");
  job.force = o.run.force != 0;
  job.command_line = "fp4sim_quantize_file";
  return report_of(folder::quantize_to_folder(job));
}

}  // namespace

int fp4sim_quantize_file(const char* in, const char* out, const fp4sim_quantize_options* options,
                         fp4sim_report* report) {
  return guarded([&] {
    require("fp4sim_quantize_file", in, out);
    const fp4sim_quantize_options o = options != nullptr ? *options : fp4sim_quantize_options{};
    const fp4sim_report made = o.scheme != nullptr ? quantize_model(in, out, o) : quantize_tensor(in, out, o);
    if (report != nullptr) *report = made;
  });
}

int fp4sim_dequantize_file(const char* in, const char* out, const fp4sim_dequantize_options* options) {
  return guarded([&] {
    require("fp4sim_dequantize_file", in, out);
    const fp4sim_dequantize_options o = options != nullptr ? *options : fp4sim_dequantize_options{};
    ModelJob job;
    set_run(job, o.run);
    job.in = in;
    job.out = out;
    job.real = decoded_type_of("type", text(o.type, "f32"));
    job.tensors = list(o.tensors);
    job.layouts = layouts_of(o.nibbles, o.scale_layout);
    job.allow_left = o.allow_left != 0;
    job.force = o.run.force != 0;
    job.command_line = "fp4sim_dequantize_file";
    const bool is_whole = is_model(in);
    job.changed = o.changed != 0;
    job.follow_links = o.follow_links != 0;
    if (!is_whole && (o.type != nullptr || o.tensors != nullptr || o.nibbles != nullptr || o.scale_layout != nullptr ||
                      o.allow_left != 0))
      throw Error(
          "fp4sim_dequantize_file: type, tensors, nibbles, scale_layout and allow_left belong to a model, not to a "
          "folder of quantize");
    if (is_whole)
      convert_model(job);
    else
      folder::dequantize_folder(in, out, job.force, job.backend, job.threads, o.changed != 0);
  });
}

int fp4sim_compare_file(const char* in, const char* const* specs, const fp4sim_compare_options* options,
                        fp4sim_compare_line line, void* user) {
  return guarded([&] {
    require("fp4sim_compare_file", in, specs, line);
    const fp4sim_compare_options o = options != nullptr ? *options : fp4sim_compare_options{};
    CompareJob job;
    set_run(job, o.run);
    job.files = {in};
    if (o.input.entry != nullptr) job.files = {std::string(in) + ":" + o.input.entry};
    job.specs = list(specs);
    job.open = open_of(o.input);
    job.is_told = o.input.dtype != nullptr;
    job.layouts = layouts_of(o.nibbles, o.scale_layout);
    job.changed = o.changed != 0;
    job.follow_links = o.follow_links != 0;
    job.all_tensors = true;
    const CompareResult result = compare_formats(job);
    if (!result.left.empty() && o.allow_left == 0)
      throw Error(fmt::format("fp4sim_compare_file: {} tensors: allow_left leaves them out: {}", result.left.size(),
                              fmt::join(result.left, "; ")),
                  Error::failed);
    for (const CompareLine& l : result.lines) {
      const fp4sim_report report = report_of(l.report);
      line(l.tensor.c_str(), l.spec.c_str(), &report, l.best ? 1 : 0, user);
    }
  });
}

int fp4sim_inspect_file(const char* in, void (*tensor)(const fp4sim_tensor* tensor, void* user), void* user) {
  return guarded([&] {
    require("fp4sim_inspect_file", in, tensor);
    for (const ModelTensor& t : model_tensors(model_files({"inspect", in}))) {
      const std::string type = t.type(), scheme = t.scheme_name();
      const fp4sim_tensor found = {t.name.c_str(),
                                   t.file().c_str(),
                                   type.c_str(),
                                   scheme.c_str(),
                                   t.scheme != nullptr ? t.scheme->spec : "",
                                   t.shape.data(),
                                   static_cast<int>(t.shape.size()),
                                   t.bytes(),
                                   t.bits_per_element(),
                                   (t.fault.empty() ? t.unknown : t.fault).c_str()};
      tensor(&found, user);
    }
  });
}
