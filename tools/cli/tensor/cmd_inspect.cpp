// `fp4sim inspect`: what a model's files hold, and in which scheme its weights are quantised.
#include <fmt/format.h>

#include "src/model/model_files.h"
#include "src/model/weight_reader.h"
#include "src/text/member_json.h"
#include "tools/cli/options.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

struct InspectOptions {
  std::vector<std::string> files;
  bool json = false, follow_links = false;
};

void run_inspect(const InspectOptions& o) {
  std::vector<std::string> files, notes;
  for (const std::string& path : o.files)
    for (const std::string& file : model_files({"inspect", path, o.follow_links, o.files}, &notes))
      files.push_back(file);
  print_notes(notes);
  const std::vector<ModelTensor> tensors = model_tensors(files);
  uint64_t bytes = 0, elements = 0;
  auto rows = nlohmann::ordered_json::array();
  Table table = {{"tensor", "scheme", "type", "shape", ">bits", "note"}, {}};
  size_t left = 0;
  for (const ModelTensor& t : tensors) {
    bytes += t.bytes();
    elements += element_count(t.name, t.shape);
    const std::string scheme = t.scheme_name();
    const bool is_left = !t.fault.empty() || !t.unknown.empty();
    left += is_left ? 1 : 0;
    const std::string note =
        is_left ? "not understood: " + (t.fault.empty() ? t.unknown : t.fault)
        : has_values(t) || t.parts.front().gguf == nullptr || t.parts.front().gguf->values != GgufValues::none
            ? t.layout_words()
            : "values not known";
    const std::string shape = shape_text(t.shape), bits = fmt::format("{:.4g}", t.bits_per_element());
    table.rows.push_back({t.name, scheme, t.type(), shape, bits, note});
    rows.push_back(joined_json({{{"tensor", t.name},
                                 {"scheme", t.is_quantised() ? nlohmann::ordered_json(scheme) : nullptr},
                                 {"spec", t.scheme != nullptr ? nlohmann::ordered_json(t.scheme->spec) : nullptr},
                                 {"dtype", t.type()}},
                                FP4_NAMED(t.shape, t.bytes(), t.bits_per_element(), t.file())}));
    if (!note.empty()) rows.back()["note"] = note;
  }
  if (o.json) return print_json({{"rows", rows}, {"bytes", bytes}, {"elements", elements}, {"not_understood", left}});
  print_table(table);
  fmt::print("{} weights in {} files: {} elements, {} bytes, {:.4g} bits an element\n", tensors.size(), files.size(),
             grouped(elements), grouped(bytes),
             elements > 0 ? 8.0 * static_cast<double>(bytes) / static_cast<double>(elements) : 0.0);
  if (left > 0) fmt::print("{} of them look quantised and are not understood\n", left);
}

}  // namespace

void command_inspect(CLI::App& app, Invocation&) {
  auto o = std::make_shared<InspectOptions>();
  option(app, "FILE FILE|DIR", o->files, "Tensors: .npy, .npz, .safetensors, .gguf, or a folder of .safetensors")
      ->required();
  app.add_flag("--follow-links", o->follow_links, follow_links_doc);
  add_json_option(app, o->json);
  app.callback([o] { run_inspect(*o); });
  set_example(app, "fp4sim inspect w.safetensors");
}

}  // namespace fp4::tools
