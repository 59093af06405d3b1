// `fp4sim gemm`: C = Q(A) Q(B)^T under an accumulator, with A [M, K], B [N, K] and C [M, N] in float32.
#include <fmt/core.h>

#include <vector>

#include "src/error.h"
#include "src/spec_text.h"
#include "src/tensor_file/tensor_writer.h"
#include "tools/cli/explain.h"

namespace fp4::tools {
namespace {

struct GemmOptions {
  std::string a, b, spec, spec_b, accumulator = "fp32_block", out, signs = "none", normalise = "sqrt";
  int hadamard = 0;
  bool force = false;
  bool explains = false;
  PlaceOptions place;
  BackendOptions backend;
};

void run_gemm(const GemmOptions& o) {
  MultiplyCall call;
  call.a.spec = quant_spec_from_words(o.spec, "--spec");
  call.b.spec = o.spec_b.empty() ? call.a.spec : quant_spec_from_words(o.spec_b, "--spec-b");
  call.options.accumulator = accumulator_from_words(o.accumulator, "--accumulator");
  HadamardSpec hadamard;
  set_hadamard(hadamard, Json{{"size", o.hadamard}, {"signs", o.signs}, {"normalise", o.normalise}}, "--hadamard");
  const Dispatcher backend(o.backend.backend);

  const FloatTensor a = load_floats(o.a);
  const FloatTensor b = load_floats(o.b);
  print_notes(a.notes);
  print_notes(b.notes);
  const auto m = static_cast<int64_t>(matrix_rows(a.shape)), k = static_cast<int64_t>(matrix_cols(a.shape));
  const auto n = static_cast<int64_t>(matrix_rows(b.shape)), k_of_b = static_cast<int64_t>(matrix_cols(b.shape));
  if (k != k_of_b)
    throw Error(fmt::format("gemm: {} has K = {} and {} has K = {}; both are [rows, K]", o.a, k, o.b, k_of_b));

  const Shape shape = {static_cast<uint64_t>(m), static_cast<uint64_t>(n)};
  std::vector<float> c(element_count("gemm: C", shape));
  TensorWriter writer(o.out, Dtype::f32, shape, o.force);
  call.a.x = view_of(a.values.data(), m, k);
  call.b.x = view_of(b.values.data(), n, k);
  call.a.place = o.place.place();
  call.b.place = o.place.place().second_operand();  // its signs are the first operand's: rng.h
  call.a.hadamard = call.b.hadamard = hadamard;
  call.options.hadamard_divisor = hadamard.product_divisor();
  call.a.threads = call.b.threads = call.options.threads = o.backend.thread_count();
  call.c = c.data();
  call.c_stride = n;
  backend.multiply(call);
  writer.write(c);
  writer.commit();
  if (o.explains) print_kernels(cpu::tile_counts());
}

void add_gemm(CLI::App& app, Invocation&) {
  auto o = std::make_shared<GemmOptions>();
  app.add_option("A", o->a, "Operand [M, K]: .npy, FILE.npz:NAME, FILE.safetensors:NAME")
      ->required()
      ->type_name("FILE");
  app.add_option("B", o->b, "Operand [N, K]")->required()->type_name("FILE");
  app.add_option("--spec", o->spec, "How A (and B) is quantised: PRESET, FILE.json, each with ,key=value,...")
      ->required()
      ->type_name("SPEC");
  app.add_option("--spec-b", o->spec_b, "How B is quantised, when not like A")->type_name("SPEC");
  app.add_option("--accumulator", o->accumulator, "Name or JSON file of the adder (default fp32_block)")
      ->type_name("ACCUMULATOR");
  app.add_option("--hadamard", o->hadamard, "Rotate both operands first: 16, 32, 64, 128 or 256")->type_name("h");
  app.add_option("--signs", o->signs, "none (default), fixed, per_layer or per_step")
      ->type_name("none|fixed|per_layer|per_step");
  app.add_option("--normalise", o->normalise, "sqrt (default) or fold (C is multiplied by 1/h)")
      ->type_name("sqrt|fold");
  app.add_option("-o,--out", o->out, "Output .npy, float32 [M, N]")->required()->type_name("FILE");
  add_place_options(app, o->place);
  add_backend_options(app, o->backend);
  add_force_option(app, o->force);
  add_explain_option(app, o->explains);
  app.callback([o] { run_gemm(*o); });
  set_example(app, "fp4sim gemm a.npy b.npy --spec nvfp4 --accumulator k64_rz --out c.npy");
}

}  // namespace

Command command_gemm() { return {"gemm", "Quantise two tensors and multiply them under an accumulator", add_gemm}; }

}  // namespace fp4::tools
