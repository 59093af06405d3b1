// `fp4sim hadamard`: the transform alone, [M, K padded to h].
#include <vector>

#include "src/arith/spec_text.h"
#include "src/files/tensor_writer.h"
#include "src/text/error.h"
#include "tools/cli/options.h"

namespace fp4::tools {
namespace {

struct HadamardOptions {
  std::string in, out, signs = "none", normalise = "sqrt", rotated = "fp32";
  int size = 0;
  bool inverse = false, force = false;
  PlaceOptions place;
  BackendOptions backend;
  InputOptions input;
};

void run_hadamard(const HadamardOptions& o) {
  HadamardSpec spec;
  set_hadamard(spec, Json{{"size", o.size}, {"signs", o.signs}, {"normalise", o.normalise}, {"output", o.rotated}},
               "hadamard");
  if (spec.size == 0) throw Error("hadamard --size: 0 is no transform; accepted: 16, 32, 64, 128, 256");
  const Dispatcher backend(o.backend.backend);
  TensorReader reader(o.in, o.input.open_options());
  const uint64_t cols = reader.cols();
  const auto padded = static_cast<uint64_t>(hadamard_padded(spec, static_cast<int64_t>(cols)));
  TensorWriter writer(o.out, Dtype::f32, {reader.rows(), padded}, o.force);
  // Bands of about 16 MiB; tiles lie along a row, so where a band ends does not matter.
  const uint64_t band = std::max<uint64_t>(1, (uint64_t{4} << 20) / std::max<uint64_t>(padded, 1));
  std::vector<float> x, y;
  for (uint64_t first = 0; first < reader.rows(); first += band) {
    const uint64_t rows = std::min(band, reader.rows() - first);
    x.resize(rows * cols);
    y.resize(rows * padded);
    reader.read_rows(first, rows, x.data());
    if (first == 0) print_notes(reader.notes());
    backend.hadamard(view_of(x.data(), static_cast<int64_t>(rows), static_cast<int64_t>(cols)), spec,
                     o.place.place().hadamard_signs(), o.inverse, y.data(), o.backend.thread_count());
    writer.write(y);
  }
  writer.commit();
}

}  // namespace

void command_hadamard(CLI::App& app, Invocation&) {
  auto o = std::make_shared<HadamardOptions>();
  option(app, "IN FILE", o->in, "Tensor [M, K]: .npy, .npz, .safetensors or raw")->required();
  option(app, "--size h", o->size, "Size h of the transform: 16, 32, 64, 128 or 256")->required();
  option(app, "--signs none|fixed|per_layer|per_step", o->signs, "none (default), fixed, per_layer or per_step");
  option(app, "--normalise sqrt|fold", o->normalise, "sqrt (default: orthonormal) or fold (left out)");
  option(app, "--output-type fp32|bf16", o->rotated, "fp32 (default), or bf16: rounded to it, kept as float32");
  app.add_flag("--inverse", o->inverse, "Undo the transform: butterflies first, then signs");
  option(app, "-o,--out FILE", o->out, "Output .npy, float32 [M, K padded to h]")->required();
  add_place_options(app, o->place);
  add_backend_options(app, o->backend);
  add_input_options(app, o->input);
  add_force_option(app, o->force);
  app.callback([o] { run_hadamard(*o); });
  set_example(app, "fp4sim hadamard x.npy --size 32 --signs per_step --seed 1 --step 7 --out rotated.npy");
}

}  // namespace fp4::tools
