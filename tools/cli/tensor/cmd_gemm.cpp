// `fp4sim gemm`: C = Q(A) Q(B)^T under an accumulator, with A [M, K], B [N, K] and C [M, N]; operands may be folders of
// `quantize`, and the product goes through an epilogue (fp4/epilogue.h).
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include "src/arith/product_epilogue.h"
#include "src/arith/quantize_statistics.h"
#include "src/arith/spec_note.h"
#include "src/arith/spec_text.h"
#include "src/backends/sparse.h"
#include "src/files/tensor_writer.h"
#include "src/golden/packed_operand.h"
#include "src/stream/quantize_files.h"
#include "src/text/error.h"
#include "sweeps/cost/hardware.h"
#include "tools/cli/table_print.h"
#include "tools/cli/tensor/explain.h"
#include "tools/cli/usage.h"

namespace fp4::tools {
namespace {

struct GemmOptions {
  std::string a, b, spec, spec_b, accumulator = "fp32_block", out, signs = "none", normalise = "sqrt", rotated = "fp32";
  std::string c, bias, type = "fp32", words, words_b, factor = "tensor_scales", sparse, hardware;
  float alpha = 1, beta = 0;
  int hadamard = 0;
  bool force = false;
  bool explains = false, tells_error = false;
  std::vector<int64_t> traced;  // row and column
  PlaceOptions place;
  BackendOptions backend;
};

// One operand: numbers that are quantised on the way, or codes and scales that `quantize` wrote.
struct Operand {
  QuantizeCall call;
  std::vector<float> values;
  std::optional<Quantized> ready;
  int64_t rows() const { return ready ? ready->rows : call.x.rows; }
  int64_t cols() const { return ready ? ready->cols : call.x.cols; }
};

Operand open_operand(const std::string& path, const std::string& spec, const char* option) {
  Operand o;
  if (std::filesystem::is_directory(path)) {
    o.ready = folder::load_quantized(path);
    o.call.spec = o.ready->spec;
    return o;
  }
  if (spec.empty()) throw Error(fmt::format("gemm {}: holds numbers; {} says how they are quantised", path, option));
  o.call.spec = quant_spec_from_words(spec, option);
  if (const std::string note = note_of(o.call.spec); !note.empty()) print_notes({std::string(option) + ": " + note});
  FloatTensor tensor = load_floats(path);
  print_notes(tensor.notes);
  o.values = std::move(tensor.values);
  o.call.x = view_of(o.values.data(), static_cast<int64_t>(matrix_rows(tensor.shape)),
                     static_cast<int64_t>(matrix_cols(tensor.shape)));
  return o;
}

// Numbers of the epilogue: [rows, cols], or [cols].
std::vector<float> load_term(const char* option, const std::string& path, int64_t rows, int64_t cols) {
  if (path.empty()) return {};
  const FloatTensor tensor = load_floats(path);
  print_notes(tensor.notes);
  if (std::ssize(tensor.values) != rows * cols ||
      (tensor.shape.size() > 1 && static_cast<int64_t>(tensor.shape.back()) != cols))
    throw Error(fmt::format("{}: {} has {} numbers, {}; {} x {} are needed", option, path, tensor.values.size(),
                            shape_text(tensor.shape), rows, cols));
  return tensor.values;
}

// Folders say themselves how they are quantised, and nothing is rotated without a size.
void refuse_idle(const CLI::App& app, const GemmOptions& o) {
  const bool a_is_folder = std::filesystem::is_directory(o.a), b_is_folder = std::filesystem::is_directory(o.b);
  if (a_is_folder && (b_is_folder || !o.spec_b.empty()))
    refuse_options(app, {"--spec"}, fmt::format("operands of numbers; {} is a folder of `quantize`", o.a));
  if (b_is_folder)
    refuse_options(app, {"--spec-b"}, fmt::format("operands of numbers; {} is a folder of `quantize`", o.b));
  if (app.count("--hadamard") == 0) refuse_options(app, {"--signs", "--normalise", "--hadamard-output"}, "--hadamard");
}

// The mask of --sparse; elements of A that it leaves out are zeros, so that they count in no maximum.
std::optional<SparseMask> open_mask(const std::string& path, Operand& a) {
  if (path.empty()) return std::nullopt;
  if (const auto* sparsity = find_row(sparsity_table, path); sparsity != nullptr && sparsity->id != Sparsity::none) {
    if (a.ready) throw Error("--sparse " + path + ": chooses by magnitude, and A is codes; give the mask as a file");
    SparseMask mask = largest_kept("--sparse " + path, sparsity->id, a.values, a.rows(), a.cols());
    clear_others(mask, a.values);
    return mask;
  }
  const FloatTensor tensor = load_floats(path);
  print_notes(tensor.notes);
  const auto cols = static_cast<int64_t>(matrix_cols(tensor.shape));
  SparseMask mask = sparse_mask("--sparse " + path, tensor.values, cols, a.rows(), a.cols());
  if (!a.ready) clear_others(mask, a.values);
  return mask;
}

// The steps of one output, printed.
void print_trace(const Operand& a, const Operand& b, const Accumulator& adder, const std::vector<int64_t>& at) {
  const auto packed = [](const Quantized& q, int64_t row, std::vector<uint32_t>& codes, std::vector<uint32_t>& scales) {
    const FloatFormat& element = format_of(q.spec.element);
    if (row < 0 || row >= q.rows)
      throw Error(fmt::format("--trace-adder: {} is no row of an operand; accepted: 0 .. {}", row, q.rows - 1));
    if (!is_packable(element) || q.scales.empty() || q.geometry.block_cols == 0)
      throw Error("--trace-adder: takes ROW COLUMN of an output of operands of at most 8 bits with scale bytes");
    codes.assign(static_cast<size_t>(q.cols / 4 + 2), 0), scales.clear();
    const int bits = element.code_bits();
    for (int64_t k = 0; k < q.cols; ++k) {
      const uint64_t code = uint64_t{q.code(row, k)} << (k * bits % 32);
      codes[static_cast<size_t>(k * bits / 32)] |= static_cast<uint32_t>(code);
      codes[static_cast<size_t>(k * bits / 32 + 1)] |= static_cast<uint32_t>(code >> 32);
    }
    scales.assign(static_cast<size_t>(q.geometry.scale_cols / 4 + 1), 0);
    for (int64_t k = 0; k < q.geometry.scale_cols; ++k)
      scales[static_cast<size_t>(k / 4)] |=
          uint32_t{q.scales[static_cast<size_t>(q.scale_index(row, k * q.geometry.block_cols))]} << (k % 4 * 8);
    return PackedOperand{&element, &format_of(q.spec.scale), q.geometry.block_cols, codes.data(), scales.data()};
  };
  std::vector<uint32_t> codes[2], scales[2];
  const PackedOperand x = packed(*a.ready, at[0], codes[0], scales[0]),
                      y = packed(*b.ready, at[1], codes[1], scales[1]);
  Table table = {{"k", "what", ">value", ">aligned by 2^", ">cut to 2^", ">bits cut off"}, {}};
  for (const golden::TraceLine& l : golden::adder_trace(adder, x, y, a.cols()))
    table.rows.push_back(
        {l.what == "C" ? "" : fmt::format("{} to {}", l.first, l.last - 1), l.what, l.value, l.weight, l.unit, l.cut});
  print_table(table);
}

// What quantising cost: the product beside that of the numbers that were given, added in fp64.
void print_error_of(const MultiplyCall& quantised, const Dispatcher& backend, const std::vector<float>& c) {
  MultiplyCall call;
  call.a = {.x = quantised.a.x, .spec = quant_spec_from_words("fp32")};
  call.b = {.x = quantised.b.x, .spec = call.a.spec};
  call.options.accumulator = accumulator_from_words("double", "gemm");
  call.a.threads = call.b.threads = call.options.threads = quantised.options.threads;
  std::vector<float> wanted(c.size());
  call.c = wanted.data(), call.c_stride = quantised.c_stride;
  backend.multiply(call);
  QuantizeReport report;
  for (size_t i = 0; i < c.size(); ++i) {
    const double value = static_cast<double>(wanted[i]), e = static_cast<double>(c[i]) - value;
    report.error_squares += e * e, report.squares += value * value;
    report.largest_error = std::max(report.largest_error, std::fabs(e));
  }
  fmt::print("error      NMSE {:.3e} ({:.2f} dB), at most {:.3g}: A B^T beside that of the numbers in fp64\n",
             report.nmse(), report.decibels(), report.largest_error);
}

// long: what is refused, in the order in which it is told, and one product
void run_gemm(const CLI::App& app, const GemmOptions& o) {
  refuse_idle(app, o);
  MultiplyCall call;
  HadamardSpec hadamard;
  set_hadamard(hadamard,
               Json{{"size", o.hadamard}, {"signs", o.signs}, {"normalise", o.normalise}, {"output", o.rotated}},
               "--hadamard");
  call.options.factor = product_factor_of("--factor", o.factor);
  if (!std::isfinite(o.alpha) || !std::isfinite(o.beta)) throw Error("--alpha, --beta: expected finite numbers");
  Epilogue epilogue = {o.alpha, o.beta, !o.bias.empty(), output_type_of("--output-type", o.type)};
  if ((o.beta != 0) != !o.c.empty()) throw Error("gemm: --beta and --c FILE belong together");
  const Dispatcher backend(o.backend.backend);

  Operand a = open_operand(o.a, o.spec, "--spec");
  Operand b = open_operand(o.b, o.spec_b.empty() ? o.spec : o.spec_b, "--spec");
  const int64_t m = a.rows(), n = b.rows();
  if (a.cols() != b.cols())
    throw Error(fmt::format("gemm: {} has K = {} and {} has K = {}; both are [rows, K]", o.a, a.cols(), o.b, b.cols()));
  const std::string adder =
      o.hardware.empty() ? o.accumulator
                         : cost::adder_of(cost::load_hardware(o.hardware, "--hardware"), a.call.spec, b.call.spec);
  call.options.accumulator = accumulator_from_words(adder, "--accumulator");
  if (o.hadamard != 0 && !o.sparse.empty())
    throw Error("--sparse: a Hadamard mixes elements that are kept with others");
  const std::optional<SparseMask> mask = open_mask(o.sparse, a);
  if (o.tells_error && (a.ready || b.ready || mask || !o.traced.empty()))
    throw Error("--error: takes operands of numbers, and neither --sparse nor --trace-adder");
  if (o.hadamard != 0 && (a.ready || b.ready))
    throw Error("--hadamard: codes cannot be rotated; it is for operands of numbers");

  const Shape shape = shape_of(m, n);
  std::vector<float> c(element_count("gemm: C", shape));
  const std::vector<float> added = load_term("--c", o.c, m, n), bias = load_term("--bias", o.bias, 1, n);
  const Dtype dtype = epilogue.output == OutputType::fp32   ? Dtype::f32
                      : epilogue.output == OutputType::bf16 ? Dtype::bf16
                                                            : Dtype::f16;
  TensorWriter writer(o.out, dtype, shape, o.force);
  a.call.place = o.place.place();
  b.call.place = o.place.place().second_operand();  // its signs are the first operand's: rng.h
  a.call.hadamard = b.call.hadamard = hadamard;
  const std::vector<uint32_t> words = load_random_words("--random-words", o.words);
  const std::vector<uint32_t> words_b = load_random_words("--random-words-b", o.words_b);
  if ((a.ready && !words.empty()) || (b.ready && !words_b.empty()))
    throw Error("--random-words: codes take no random bits; it is for operands of numbers");
  a.call.random_words = words;
  b.call.random_words = words_b;
  call.options.hadamard_divisor = hadamard.product_divisor();
  a.call.threads = b.call.threads = call.options.threads = o.backend.thread_count();
  if (a.ready || b.ready || mask || !o.traced.empty()) {
    for (Operand* operand : {&a, &b})
      if (!operand->ready) backend.quantize(operand->call, operand->ready.emplace());
    if (mask) {
      sparse_gemm(backend, *a.ready, *b.ready, *mask, call.options, c.data(), n);
    } else {
      backend.gemm(*a.ready, *b.ready, call.options, c.data(), n);
    }
  } else {
    call.a = a.call;
    call.b = b.call;
    call.c = c.data();
    call.c_stride = n;
    backend.multiply(call);
  }
  writer.write(finished(epilogue, c, n, added.empty() ? nullptr : added.data(), bias.empty() ? nullptr : bias.data()));
  writer.commit();
  if (o.tells_error) print_error_of(call, backend, c);
  if (!o.traced.empty()) print_trace(a, b, call.options.accumulator, o.traced);
  if (o.explains) print_kernels(cpu::gemm_uses.read());
}

}  // namespace

void command_gemm(CLI::App& app, Invocation&) {
  auto o = std::make_shared<GemmOptions>();
  option(app, "A FILE|DIR", o->a,
         "Operand [M, K]: .npy, FILE.npz:NAME, FILE.safetensors:NAME, or a folder of `quantize`")
      ->required();
  option(app, "B FILE|DIR", o->b, "Operand [N, K]")->required();
  option(app, "--spec SPEC", o->spec,
         "How A (and B) is quantised: PRESET, FILE.json, each with ,key=value,...; folders say it themselves");
  option(app, "--spec-b SPEC", o->spec_b, "How B is quantised, when not like A");
  auto* accumulator =
      option(app, "--accumulator ACCUMULATOR", o->accumulator, "Name or JSON file of the adder (default fp32_block)");
  option(app, "--hardware CHIP", o->hardware, "The adder that a chip has for these operands: `fp4sim list hardware`")
      ->excludes(accumulator);
  option(app, "--sparse N:M|FILE", o->sparse,
         "A is sparse, 2:4 or 4:8 in pairs: by magnitude (2:4, 4:8), or as a file says: a mask [M, K], or metadata [M, "
         "K/4] or [M, K/8] of i | j << 2");
  option(app, "--hadamard h", o->hadamard, "Rotate both operands first: 16, 32, 64, 128 or 256");
  option(app, "--signs none|fixed|per_layer|per_step", o->signs, "none (default), fixed, per_layer or per_step");
  option(app, "--normalise sqrt|fold", o->normalise, "sqrt (default) or fold (C is multiplied by 1/h)");
  option(app, "--hadamard-output fp32|bf16", o->rotated, "Type of the rotated operands: fp32 (default) or bf16");
  add_random_words_option(app, "--random-words", o->words, "for A");
  add_random_words_option(app, "--random-words-b", o->words_b, "for B");
  option(app, "--factor WORD", o->factor,
         "What the tensor scales put into the product: tensor_scales (default) or, as TransformerEngine has it, amaxes "
         "or amaxes_inverse (`fp4sim list policies`)");
  option(app, "--alpha X", o->alpha, "Factor of the product (default 1)");
  option(app, "--beta X", o->beta, "Factor of --c, which is added");
  option(app, "--c FILE", o->c, "Numbers [M, N] to add, times --beta");
  option(app, "--bias FILE", o->bias, "Numbers [N] to add, one a column");
  option(app, "--output-type fp32|bf16|fp16", o->type, "Rounded to at the end: fp32 (default), bf16 or fp16");
  option(app, "--trace-adder ROW COLUMN", o->traced,
         "Prints how this output is added, before tensor scales: terms, cut bits, sums, results")
      ->expected(2);
  option(app, "-o,--out FILE", o->out, "Output .npy [M, N], float32 (bf16 as uint16, which numpy lacks)")->required();
  add_place_options(app, o->place);
  add_backend_options(app, o->backend);
  add_force_option(app, o->force);
  app.add_flag("--error", o->tells_error,
               "Prints how far C lies from the product of the numbers that are given, in fp64");
  add_explain_option(app, o->explains);
  app.callback([o, &app] { run_gemm(app, *o); });
  set_example(app,
              "fp4sim gemm a.npy b.npy --spec nvfp4 --hardware b200 --out c.npy\n"
              "  fp4sim gemm a_codes b_codes --bias bias.npy --output-type bf16 --out d.npy");
}

}  // namespace fp4::tools
