#include "src/golden/suite.h"

#include <algorithm>
#include <optional>

#include "src/backends/backends.h"
#include "src/backends/declined.h"
#include "src/layout/digit_layout.h"
#include "src/text/error.h"

namespace fp4::golden {
namespace {

constexpr const char* formats[] = {"mxfp4", "nvfp4", "ue5m3fp4", "mxfp8"};

struct Builder {
  std::vector<Case> cases;

  Case& add(const std::string& words, InputKind input, int64_t rows, int64_t cols, int64_t rows_b = 0) {
    cases.push_back(make_case(words, input, rows, rows_b, cols, {2026, static_cast<uint32_t>(cases.size()) * 128, 1}));
    return cases.back();
  }
  void add_gemm(const std::string& words, int64_t m, int64_t n, int64_t k, InputKind input) {
    add(words, input, m, k, n);
  }
  void add_sparse(const std::string& words, Sparsity sparsity, int64_t m, int64_t n, int64_t k) {
    make_sparse(add(words, InputKind::spread, m, k, n), sparsity);
  }
  void add_hadamard(const std::string& words, int size, HadamardSigns signs, int64_t rows, int64_t cols) {
    Case& c = add(words, InputKind::gaussian, rows, cols);
    c.hadamard = {size, signs, HadamardNormalise::sqrt};
    c.name = "hadamard" + std::to_string(size) + "." + row_of(hadamard_signs_table, signs).name + "." + c.name;
  }
};

void add_formats(Builder& b, int64_t rows, int64_t cols, bool transposes) {
  for (const char* format : formats) {
    for (const InputKindInfo& kind : input_kind_table) {
      if (kind.id == InputKind::cancelling) continue;  // of products
      b.add(format, kind.id, rows, cols).with_transpose = transposes && kind.id == InputKind::boundary;
    }
    for (const char* mode : {"stochastic", "stochastic_midpoint", "stochastic_truncated"}) {
      b.add(std::string(format) + ",rounding=" + mode, InputKind::boundary, rows, cols);
    }
  }
}

std::vector<Case> smoke() {
  Builder b;
  for (const char* format : formats) {
    b.add(format, InputKind::boundary, 8, 64);
    b.add(format, InputKind::special, 3, 40);
    b.add(std::string(format) + ",rounding=stochastic", InputKind::boundary, 4, 64);
    b.add_gemm(format, 4, 3, 512, InputKind::spread);
  }
  for (const char* preset :
       {"torchao_rceil", "torchao_even", "te_nvfp4", "torchao_nvfp4", "fouroversix", "ggml_mxfp4"}) {
    b.add(preset, InputKind::boundary, 4, 64);
  }
  b.add("mxfp4,block=32x32", InputKind::boundary, 32, 64).with_transpose = true;
  b.add_hadamard("mxfp4", 16, HadamardSigns::fixed, 4, 64);
  return b.cases;
}

std::vector<Case> standard() {
  Builder b;
  add_formats(b, 96, 320, true);
  add_formats(b, 31, 33, false);
  for (const Preset& p : preset_table) {
    if (p.spec.element != Element::fp32) b.add(p.name, InputKind::boundary, 48, 256);
  }
  b.add("mxfp4,tensor_scale=current", InputKind::boundary, 48, 256);
  for (const int bits : {4, 16, 32}) {
    b.add("mxfp4,rounding=stochastic,random_bits=" + std::to_string(bits), InputKind::boundary, 32, 128);
  }
  b.add("mxfp4,block=32x32", InputKind::boundary, 100, 160).with_transpose = true;
  b.add("nvfp4,block=16x16", InputKind::gaussian, 100, 160).with_transpose = true;
  for (const int size : hadamard_sizes) {
    for (const HadamardSignsInfo& signs : hadamard_signs_table) b.add_hadamard("mxfp4", size, signs.id, 8, 300);
  }
  b.add_hadamard("nvfp4,rounding=stochastic", 16, HadamardSigns::per_step, 32, 256);
  for (const char* format : formats) {
    for (const int64_t k : {64, 512, 2048}) b.add_gemm(format, 16, 12, k, InputKind::gaussian);
    b.add_gemm(format, 16, 12, 512, InputKind::spread);
    b.add_gemm(format, 9, 7, 300, InputKind::heavy_tailed);
  }
  // Sums that cancel under far-apart scales, of which adders that differ in a few bits need many.
  for (const char* format : {"mxfp4", "nvfp4"}) b.add_gemm(format, 96, 80, 512, InputKind::spread);
  b.add_sparse("mxfp8", Sparsity::two_of_four, 16, 12, 1024);
  b.add_sparse("mxfp4", Sparsity::four_of_eight, 16, 12, 1024);
  b.add_sparse("nvfp4,block=32", Sparsity::four_of_eight, 16, 12, 1024);
  b.add_gemm("nvfp4", 96, 80, 64, InputKind::cancelling);
  b.add_gemm("mxfp4,block=16", 96, 80, 128, InputKind::cancelling);
  b.add_gemm("mxfp8", 48, 40, 128, InputKind::cancelling);
  return b.cases;
}

std::vector<Case> stress() {
  Builder b;
  for (const char* format : formats) {
    b.add(format, InputKind::boundary, 512, 2048).with_transpose = true;
    b.add(format, InputKind::heavy_tailed, 511, 2047);
    b.add(std::string(format) + ",rounding=stochastic", InputKind::boundary, 256, 1024);
    b.add_gemm(format, 48, 40, 4096, InputKind::spread);
  }
  return b.cases;
}

Array float_array(const std::string& name, const std::vector<float>& v, int64_t rows, int64_t cols) {
  return {name, "f32", {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)}, bytes_of(v)};
}

Array byte_array(const std::string& name, const std::vector<uint8_t>& v, std::vector<uint64_t> shape) {
  return {name, "u8", std::move(shape), {v.begin(), v.end()}};
}

void add_codes(std::vector<Array>& out, const Quantized& q, const std::string& suffix) {
  const auto rows = static_cast<uint64_t>(q.rows);
  const auto width = static_cast<uint64_t>(q.is_packed() ? q.code_row_bytes() : q.geometry.padded_cols);
  const char* dtype = q.code_bytes() == 1 ? "u8" : (q.code_bytes() == 2 ? "u16" : "u32");
  out.push_back({"codes" + suffix, dtype, {rows, width}, {q.codes.begin(), q.codes.end()}});
  if (!q.is_packed()) return;
  const auto cols = static_cast<int64_t>(2 * width);
  const std::vector<uint8_t> codes = from_layout(CodeLayout::low_first, q.codes, q.rows, cols, "codes");
  out.push_back(
      byte_array("codes_high_first" + suffix, to_layout(CodeLayout::high_first, codes, q.rows, cols), {rows, width}));
}

void add_scales(std::vector<Array>& out, const Quantized& q, const std::string& suffix) {
  const int64_t rows = q.geometry.scale_rows;
  const int64_t cols = q.geometry.scale_cols;
  const std::vector<uint64_t> shape = {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)};
  if (!q.real_scales.empty()) {
    out.push_back(float_array("scales" + suffix, q.real_scales, rows, cols));
  } else if (!q.scales.empty()) {
    out.push_back(byte_array("scales" + suffix, q.scales, shape));
    for (const ScaleLayoutInfo& layout : scale_layout_table) {
      if (layout.id == ScaleLayout::linear || !layout.in_bundles) continue;
      out.push_back(byte_array(std::string("scales_") + layout.name + suffix,
                               to_layout(layout.id, q.scales, rows, cols),
                               {static_cast<uint64_t>(padded_size(layout.id, rows, cols))}));
    }
  }
  if (q.tensor_scale.size() == 1) {
    out.push_back({"tensor_scale" + suffix, "f32", {1}, bytes_of(q.tensor_scale)});
  } else {
    out.push_back(float_array("tensor_scale" + suffix, q.tensor_scale, q.rows,
                              static_cast<int64_t>(q.tensor_scale.size()) / q.rows));
  }
}

void add_quantized(std::vector<Array>& out, const Dispatcher& dispatcher, const QuantizeCall& call,
                   const std::string& suffix) {
  Quantized q;
  dispatcher.quantize(call, q);
  add_codes(out, q, suffix);
  add_scales(out, q, suffix);
  std::vector<float> decoded(static_cast<size_t>(q.rows * q.cols));
  dispatcher.dequantize(q, decoded.data(), call.threads);
  out.push_back(float_array("dequantized" + suffix, decoded, q.rows, q.cols));
  if (!is_stochastic(call.spec.rounding)) return;
  std::vector<unsigned char> draws;
  const uint64_t count = static_cast<uint64_t>(q.rows * q.cols);
  const int width = (call.spec.random_bits + 7) / 8;
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t r = call.draw(i, q.cols, call.spec.random_bits);
    for (int byte = 0; byte < width; ++byte) draws.push_back(static_cast<unsigned char>(r >> (8 * byte)));
  }
  out.push_back({"random" + suffix,
                 width == 1 ? "u8" : (width == 2 ? "u16" : "u32"),
                 {static_cast<uint64_t>(q.rows), static_cast<uint64_t>(q.cols)},
                 std::move(draws)});
}

}  // namespace

size_t element_bytes(const Array& a) { return a.dtype == "u8" ? 1 : (a.dtype == "u16" ? 2 : 4); }

uint32_t word_at(const Array& a, size_t i) {
  const size_t bytes = element_bytes(a);
  uint32_t w = 0;
  for (size_t b = 0; b < bytes; ++b) w |= static_cast<uint32_t>(a.bytes[i * bytes + b]) << (8 * b);
  return w;
}

std::vector<float> floats_of(const Array& a) {
  std::vector<float> out(a.bytes.size() / 4);
  for (size_t i = 0; i < out.size(); ++i) out[i] = float_of(word_at(a, i));
  return out;
}

std::vector<unsigned char> bytes_of(const std::vector<float>& v) {
  std::vector<unsigned char> out(v.size() * 4);
  for (size_t i = 0; i < v.size(); ++i) {
    const uint32_t w = bits_of(v[i]);
    for (size_t byte = 0; byte < 4; ++byte) out[4 * i + byte] = static_cast<unsigned char>(w >> (8 * byte));
  }
  return out;
}

Case make_case(const std::string& words, InputKind input, int64_t rows, int64_t rows_b, int64_t cols,
               RandomPlace place) {
  Case c;
  std::string tag = words;
  for (char& ch : tag) {
    if (ch == ',') ch = '.';
    if (ch == '=') ch = '-';
  }
  c.name = tag + "." + row_of(input_kind_table, input).name + "." + std::to_string(rows) + "x" + std::to_string(cols);
  c.words = words;
  c.input = input;
  c.rows = rows;
  c.cols = cols;
  c.place = place;
  if (rows_b == 0) return c;
  c.name = "gemm." + c.name + "x" + std::to_string(rows_b);
  c.is_gemm = true;
  c.rows_b = rows_b;
  const QuantSpec spec = quant_spec_from_words(words, c.name);
  for (const AccumulatorInfo& row : accumulator_table)
    if (invalid_reason(row.row, spec, spec).empty()) c.accumulators.emplace_back(row.name);
  return c;
}

void make_sparse(Case& c, Sparsity sparsity) {
  const QuantSpec spec = quant_spec_from_words(c.words, c.name),
                  spec_b = c.words_b.empty() ? spec : quant_spec_from_words(c.words_b, c.name);
  for (const QuantSpec* s : {&spec, &spec_b}) check_sparse(*s, c.name);
  if (!c.is_gemm || c.cols % 8 != 0 || c.hadamard.size > 0)
    throw Error(c.name + ": a sparse case is a product without a Hadamard, whose K is a multiple of 8");
  c.sparsity = sparsity;
  c.name = std::string("sparse_") + (sparsity == Sparsity::two_of_four ? "2_4." : "4_8.") + c.name;
}

bool is_large(const Case& c) {
  return c.rows * c.cols > largest_stored || c.rows_b * c.cols > largest_stored || c.rows * c.rows_b > largest_stored;
}

int code_bits(const Case& c) { return format_of(quant_spec_from_words(c.words).element).code_bits(); }

bool has_fp4_codes(const Case& c) { return code_bits(c) == 4; }

std::vector<Case> suite_cases(const std::string& suite) {
  if (suite == "smoke") return smoke();
  if (suite == "standard") return standard();
  if (suite == "stress") return stress();
  std::vector<std::string> names;
  for (const SuiteInfo& s : suite_table) names.emplace_back(s.name);
  throw unknown_word("golden --suite", suite, names);
}

std::vector<Array> make_arrays(const Case& c, const std::string& backend, int threads,
                               std::vector<std::string>* declined) {
  const Dispatcher dispatcher(backend);
  const auto made = [&](const std::string& name, const auto& make) {
    try {
      make();
      return true;
    } catch (const Declined&) {
      if (declined == nullptr) throw;
      declined->push_back(name);
      return false;
    }
  };
  std::vector<Array> out;
  const QuantSpec spec = quant_spec_from_words(c.words, "golden case " + c.name);
  const auto input = [&c](const std::vector<float>& given, const QuantSpec& of, int64_t rows, RandomPlace place) {
    std::vector<float> x = given.empty() ? make_input(c.input, of, rows, c.cols, place) : given;
    for (float& v : x) v = rounded_to(c.input_type, v);
    return x;
  };
  std::vector<float> a = input(c.given_a, spec, c.rows, c.place);
  std::optional<SparseMask> mask;
  if (c.sparsity != Sparsity::none) {
    mask = largest_kept("golden case " + c.name, c.sparsity, a, c.rows, c.cols);
    clear_others(*mask, a);
  }
  QuantizeCall call = {.x = view_of(a.data(), c.rows, c.cols),
                       .spec = spec,
                       .hadamard = c.hadamard,
                       .place = c.place,
                       .threads = threads};
  if (!c.is_gemm && is_stochastic(spec.rounding)) call.random_words = c.random_words;
  if (!c.is_gemm) {
    out.push_back(float_array("input", a, c.rows, c.cols));
    made("codes", [&] {
      add_quantized(out, dispatcher, call, "");
      if (!c.with_transpose) return;
      call.x = call.x.transposed();
      add_quantized(out, dispatcher, call, "_transposed");
    });
    return out;
  }
  const QuantSpec spec_b = c.words_b.empty() ? spec : quant_spec_from_words(c.words_b, "golden case " + c.name);
  const std::vector<float> b = input(c.given_b, spec_b, c.rows_b, c.place.second_operand());
  out.push_back(float_array("a", a, c.rows, c.cols));
  out.push_back(float_array("b", b, c.rows_b, c.cols));
  if (mask) {
    const std::vector<uint8_t> metadata = metadata_of(*mask, c.sparsity);
    out.push_back(byte_array("metadata", metadata,
                             {static_cast<uint64_t>(c.rows), metadata.size() / static_cast<uint64_t>(c.rows)}));
  }
  std::vector<float> product(static_cast<size_t>(c.rows * c.rows_b));
  Quantized quantized_a, quantized_b;
  for (const std::string& name : c.accumulators) {
    MultiplyCall multiply;
    multiply.a = call;
    multiply.b = {.x = view_of(b.data(), c.rows_b, c.cols),
                  .spec = spec_b,
                  .hadamard = c.hadamard,
                  .place = c.place.second_operand(),
                  .threads = threads};
    multiply.options = {accumulator_from(name, c.name), c.hadamard.product_divisor(), threads};
    multiply.c = product.data();
    multiply.c_stride = c.rows_b;
    const bool is_made = made("output_" + name, [&] {
      if (!mask) return dispatcher.multiply(multiply);
      if (quantized_a.codes.empty()) dispatcher.quantize(multiply.a, quantized_a);
      if (quantized_b.codes.empty()) dispatcher.quantize(multiply.b, quantized_b);
      sparse_gemm(dispatcher, quantized_a, quantized_b, *mask, multiply.options, product.data(), c.rows_b);
    });
    if (is_made) out.push_back(float_array("output_" + name, product, c.rows, c.rows_b));
  }
  return out;
}

}  // namespace fp4::golden
