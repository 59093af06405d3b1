// Golden suites: which cases a bundle holds, and what a case's arrays are. A case is data; its arrays are a pure
// function of it, so `make` writes them, `check` computes them again and `verify` explains what differs.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fp4/epilogue.h"
#include "src/arith/spec_text.h"
#include "src/backends/sparse.h"
#include "src/golden/inputs.h"
#include "src/layout/digit_layout.h"

namespace fp4::golden {

// What a kernel does after alpha*P + beta*C + bias. gelu_tanh is x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu };
struct ActivationInfo {
  Activation id;
  const char* name;
  const char* doc;
  const char* source;
  double least;  // no output lies below it
};
inline constexpr ActivationInfo activation_table[] = {
    {Activation::none, "none", "the sum itself", "definition", -HUGE_VAL},
    {Activation::relu, "relu", "max(x, 0)", "CUBLASLT_EPILOGUE_RELU", 0.0},
    {Activation::gelu, "gelu", "x/2 (1 + erf(x/sqrt 2))", "PyTorch gelu", -0.17},
    {Activation::gelu_tanh, "gelu_tanh", "GELU by tanh", "CUBLASLT_EPILOGUE_GELU; PyTorch gelu, approximate=tanh",
     -0.1705},
    {Activation::silu, "silu", "x/(1 + exp(-x))", "SwiGLU kernels", -0.2785},
};
static_assert(ids_are_indices(activation_table));

// Worked out in fp64 and rounded once to fp32: kernels' own erf and tanh err by an ulp or two, which an output in bf16
// or fp16 hides but for one in some thousands.
float activated(Activation how, float x);

// What a kernel does to a product before it stores it, when that is said: alpha*P + beta*C + bias as fp4/epilogue.h, an
// activation, then one rounding.
struct CaseEpilogue {
  Epilogue how;
  RealType output = RealType::fp32;
  std::vector<float> c{}, bias{};  // [M, N] and [N]; empty where there is none
  Activation activation = Activation::none;

  bool is_said() const {
    return how.alpha != 1.0f || how.beta != 0.0f || how.has_bias || output != RealType::fp32 ||
           activation != Activation::none;
  }
  // Error, naming the case, when c or bias has another size.
  void check(const std::string& name, int64_t rows, int64_t cols) const;
  float value(float product, size_t i, size_t cols) const;
  void apply(std::vector<float>& product, int64_t cols) const;
};

// An array as a bundle's manifest describes it.
struct ArrayRecord {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string sha256;       // of the elements alone
  std::string file_sha256;  // of the .npy; empty in bundles of schema 1, and where no file is
  // Of every 2^20 bytes, where the bundle holds no file: answers of large cases are made again when they are needed.
  std::vector<std::string> block_sha256{};
  bool has_file() const { return block_sha256.empty(); }
};

struct Case {
  std::string name;
  bool is_gemm = false;
  std::string words;    // spec, as on the command line
  std::string words_b;  // of the second operand (gemm); empty: the same
  InputKind input = InputKind::boundary;
  RealType input_type = RealType::fp32;  // that holds every input exactly
  std::vector<float> given_a, given_b;   // explicit operands (witnesses, files) instead of `input`
  bool given_is_stored = false;          // they are too many for a manifest and stand in the arrays input, or a and b
  int64_t rows = 0;
  int64_t cols = 0;    // K
  int64_t rows_b = 0;  // gemm: N
  HadamardSpec hadamard;
  Sparsity sparsity = Sparsity::none;  // gemm: of A, by magnitude
  RandomPlace place;
  CaseEpilogue epilogue;                       // gemm: between the sums and the outputs that are judged
  std::vector<uint32_t> random_words;          // of a quantisation: a kernel's own, in place of Philox's
  bool with_transpose = false;                 // also the operand IN^T, blocks along axis 0
  std::vector<std::string> accumulators;       // gemm
  std::map<std::string, uint64_t> told_apart;  // gemm: outputs of an accumulator that are not fp32_block's
  std::map<std::string, ArrayRecord> stored;   // of a case that was read from a bundle
};

// What the name of an array says: "scales_128x4_transposed" is the stage `scales` of the transposed operand in tiles.
// The names are those that make_arrays() gives, and codes_ and scales_ with every layout of digit_layout.h.

// What is judged, in the order of a kernel's work.
inline constexpr const char* stage_names[] = {"scales", "tensor_scale", "codes", "dequantized", "output"};
inline constexpr const char* input_stage = "input";  // what a kernel is given: input, a, b, random, metadata

struct ArrayName {
  std::string stage;  // one of stage_names, input_stage, or "" for a name that no bundle has
  std::string part;   // the array whatever its layout: "scales_transposed"; outputs of all accumulators are "output"
  bool is_transposed = false;
  CodeLayout code_layout = CodeLayout::low_first;
  ScaleLayout scale_layout = ScaleLayout::linear;
};

inline ArrayName parse_array_name(std::string_view name) {
  ArrayName out;
  std::string_view base = name;
  constexpr std::string_view transposed = "_transposed";
  out.is_transposed = base.ends_with(transposed);
  if (out.is_transposed) base.remove_suffix(transposed.size());
  for (const CodeLayoutInfo& layout : code_layout_table)
    if (base == std::string("codes_") + layout.name) {
      out.code_layout = layout.id;
      base = "codes";
    }
  for (const ScaleLayoutInfo& layout : scale_layout_table)
    if (base == std::string("scales_") + layout.name) {
      out.scale_layout = layout.id;
      base = "scales";
    }
  if (base.starts_with("output_")) base = "output";
  for (const char* stage : stage_names)
    if (base == stage) out.stage = stage;
  for (const char* given : {"input", "a", "b", "random", "metadata"})
    if (base == given) out.stage = input_stage;
  if (!out.stage.empty()) out.part = std::string(base) + std::string(out.is_transposed ? transposed : "");
  return out;
}

struct SuiteInfo {
  const char* name;
  const char* doc;
};
inline constexpr SuiteInfo suite_table[] = {
    {"smoke", "a few KB a case: every preset and accumulator once, in seconds"},
    {"standard", "some MB: all inputs, odd shapes, 2-D blocks, transposes, Hadamards, gemm at several K"},
    {"stress", "100 MB: the same at sizes that fill a device"},
};

// Elements that a manifest or a file of answers holds; the answers of larger cases are hashes, block by block.
inline constexpr int64_t largest_stored = int64_t{1} << 20;
bool is_large(const Case& c);

// Bits of its elements' codes, and whether they are four.
int code_bits(const Case& c);
bool has_fp4_codes(const Case& c);

// A quantisation of [rows, cols], or, with rows_b > 0, the product [rows, rows_b] of two operands under every named
// accumulator; its name says all of this.
Case make_case(const std::string& words, InputKind input, int64_t rows, int64_t rows_b, int64_t cols,
               RandomPlace place);

// Makes A of a product sparse and says so in its name; Error where its words or shape allow none.
void make_sparse(Case& c, Sparsity sparsity);

// Throws Error for an unknown suite.
std::vector<Case> suite_cases(const std::string& suite);

// What a case is computed from, as stored in the bundle.
struct CaseInputs {
  std::vector<float> a;  // or the input of a quantisation
  std::vector<float> b;
};
// Of operands that are given, or of what the case says where they are empty.
CaseInputs inputs_of(const Case& c, std::vector<float> given_a, std::vector<float> given_b);

// One array of a case: C-order, little endian.
struct Array {
  std::string name;   // "codes", "scales_128x4", "output_k64_rz": file name without .npy
  std::string dtype;  // "u8", "u16", "u32", "f32"
  std::vector<uint64_t> shape;
  std::vector<unsigned char> bytes;
};

// Element i of an array: a code, or the bits of a float.
size_t element_bytes(const Array& a);
uint32_t word_at(const Array& a, size_t i);
std::vector<unsigned char> bytes_of(const std::vector<float>& values);
std::vector<float> floats_of(const Array& a);  // of words of 4 bytes

// All arrays of a case: input (a, b), codes, codes_high_first, scales, scales_128x4, scales_amd_preshuffled,
// tensor_scale, dequantized, random (draws of stochastic rounding) and *_transposed; or a, b, output_<accumulator>, and
// metadata of a sparse A, whose other elements are zeros. With `declined` an array that the backend does not make, or a
// quantised case from where it stops, is named there and left out; else that is an Error.
std::vector<Array> make_arrays(const Case& c, const std::string& backend, int threads,
                               std::vector<std::string>* declined = nullptr);

// The same arrays, whose bytes are worked out when they are asked for.
struct LazyArray {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  std::function<std::vector<unsigned char>()> bytes;
  Array made() const { return {name, dtype, shape, bytes()}; }
};
std::vector<LazyArray> lazy_arrays(const Case& c, std::shared_ptr<const CaseInputs> in, const std::string& backend,
                                   int threads, std::vector<std::string>* declined = nullptr);

// JSON of a case as it stands in a bundle's manifest, and back.
Json case_json(const Case& c);
Case case_from_json(const Json& j, const std::string& place);

}  // namespace fp4::golden
