#include "src/golden/suite.h"

#include <bit>
#include <cstring>
#include <optional>

#include "src/backends/backends.h"
#include "src/backends/declined.h"
#include "src/files/dtype.h"
#include "src/files/large_pages.h"
#include "src/layout/digit_layout.h"
#include "src/text/named_rows.h"

namespace fp4::golden {
namespace {

static_assert(std::endian::native == std::endian::little);  // arrays are bytes of words

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
    for (const auto& kind : input_kind_table) {
      if (kind.id == InputKind::cancelling) continue;  // of products
      b.add(format, kind.id, rows, cols).with_transpose = transposes && kind.id == InputKind::boundary;
    }
    for (const char* mode : {"stochastic", "stochastic_midpoint", "stochastic_truncated"})
      b.add(std::string(format) + ",rounding=" + mode, InputKind::boundary, rows, cols);
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
  for (const int bits : {4, 16, 32})
    b.add("mxfp4,rounding=stochastic,random_bits=" + std::to_string(bits), InputKind::boundary, 32, 128);
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

using Bytes = std::vector<unsigned char>;

Bytes swapped_nibbles(Bytes codes) {
  for (unsigned char& two : codes) two = static_cast<unsigned char>(two << 4 | two >> 4);
  return codes;
}

Bytes draws_of(const QuantizeCall& call, uint64_t count, int width) {
  Bytes out;
  out.reserve(count * static_cast<size_t>(width));
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t r = call.draw(i, call.x.cols, call.spec.random_bits);
    for (int byte = 0; byte < width; ++byte) out.push_back(static_cast<unsigned char>(r >> (8 * byte)));
  }
  return out;
}

const char* dtype_of_width(int bytes) { return bytes == 1 ? "u8" : bytes == 2 ? "u16" : "u32"; }

// `in` keeps what the call reads.
void add_quantized(std::vector<LazyArray>& out, const Dispatcher& dispatcher, const QuantizeCall& call,
                   const std::shared_ptr<const CaseInputs>& in, const std::string& suffix) {
  const auto q = std::make_shared<Quantized>();
  dispatcher.quantize(call, *q);
  const auto add = [&](const std::string& name, const char* dtype, Shape shape, std::function<Bytes()> bytes) {
    out.push_back({name + suffix, dtype, std::move(shape), std::move(bytes)});
  };
  const Shape codes = shape_of(q->rows, q->is_packed() ? q->code_row_bytes() : q->geometry.padded_cols);
  add("codes", dtype_of_width(static_cast<int>(q->code_bytes())), codes,
      [q] { return Bytes(q->codes.begin(), q->codes.end()); });
  if (q->is_packed())
    add("codes_high_first", "u8", codes, [q] { return swapped_nibbles({q->codes.begin(), q->codes.end()}); });
  const int64_t rows = q->geometry.scale_rows, cols = q->geometry.scale_cols;
  if (!q->real_scales.empty()) add("scales", "f32", shape_of(rows, cols), [q] { return bytes_of(q->real_scales); });
  for (const ScaleLayoutInfo& layout : scale_layout_table) {
    if (q->scales.empty() || !layout.in_bundles) continue;
    const bool is_linear = layout.id == ScaleLayout::linear;
    add(is_linear ? "scales" : std::string("scales_") + layout.name, "u8",
        is_linear ? shape_of(rows, cols) : Shape{static_cast<uint64_t>(padded_size(layout.id, rows, cols))},
        [q, rows, cols, id = layout.id] { return to_layout(id, q->scales, rows, cols); });
  }
  const auto factors = static_cast<int64_t>(q->tensor_scale.size());
  add("tensor_scale", "f32", factors == 1 ? Shape{1} : shape_of(q->rows, factors / q->rows),
      [q] { return bytes_of(q->tensor_scale); });
  add("dequantized", "f32", shape_of(q->rows, q->cols), [q, dispatcher, threads = call.threads] {
    auto decoded = large_vector<unsigned char>(sizeof(float) * static_cast<size_t>(q->rows * q->cols));
    dispatcher.dequantize(*q, reinterpret_cast<float*>(decoded.data()), threads);
    return decoded;
  });
  const int width = (call.spec.random_bits + 7) / 8;
  if (is_stochastic(call.spec.rounding))
    add("random", dtype_of_width(width), shape_of(q->rows, q->cols),
        [in, call, width] { return draws_of(call, static_cast<uint64_t>(call.x.rows * call.x.cols), width); });
}

}  // namespace

size_t element_bytes(const Array& a) { return a.dtype == "u8" ? 1 : (a.dtype == "u16" ? 2 : 4); }

uint32_t word_at(const Array& a, size_t i) {
  uint32_t w = 0;
  std::memcpy(&w, &a.bytes[i * element_bytes(a)], element_bytes(a));
  return w;
}

std::vector<float> floats_of(const Array& a) {
  const auto* floats = reinterpret_cast<const float*>(a.bytes.data());
  return {floats, floats + a.bytes.size() / 4};
}

std::vector<unsigned char> bytes_of(const std::vector<float>& v) {
  auto bytes = large_vector<unsigned char>(4 * v.size());
  if (!v.empty()) std::memcpy(bytes.data(), v.data(), bytes.size());
  return bytes;
}

Case make_case(const std::string& words, InputKind input, int64_t rows, int64_t rows_b, int64_t cols,
               RandomPlace place) {
  std::string tag = words;
  for (char& ch : tag) {
    if (ch == ',') ch = '.';
    if (ch == '=') ch = '-';
  }
  tag += std::string(".") + row_of(input_kind_table, input).name;
  Case c = {.name = tag + "." + std::to_string(rows) + "x" + std::to_string(cols),
            .words = words,
            .input = input,
            .rows = rows,
            .cols = cols,
            .place = place};
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
  throw unknown_word("golden --suite", suite, names_of(suite_table));
}

CaseInputs inputs_of(const Case& c, std::vector<float> given_a, std::vector<float> given_b) {
  const QuantSpec spec = quant_spec_from_words(c.words, "golden case " + c.name);
  const auto input = [&c](std::vector<float>& given, const QuantSpec& of, int64_t rows, RandomPlace place) {
    std::vector<float> x = given.empty() ? make_input(c.input, of, rows, c.cols, place) : std::move(given);
    for (float& v : x) v = rounded_to(c.input_type, v);
    return x;
  };
  CaseInputs in = {input(given_a, spec, c.rows, c.place), {}};
  if (c.is_gemm)
    in.b = input(given_b, c.words_b.empty() ? spec : quant_spec_from_words(c.words_b, "golden case " + c.name),
                 c.rows_b, c.place.second_operand());
  if (c.sparsity != Sparsity::none)
    clear_others(largest_kept("golden case " + c.name, c.sparsity, in.a, c.rows, c.cols), in.a);
  return in;
}

std::vector<LazyArray> lazy_arrays(const Case& c, std::shared_ptr<const CaseInputs> in, const std::string& backend,
                                   int threads, std::vector<std::string>* declined) {
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
  std::vector<LazyArray> out;
  const QuantSpec spec = quant_spec_from_words(c.words);
  QuantizeCall a = {.x = view_of(in->a.data(), c.rows, c.cols),
                    .spec = spec,
                    .hadamard = c.hadamard,
                    .place = c.place,
                    .threads = threads};
  out.push_back({c.is_gemm ? "a" : "input", "f32", shape_of(c.rows, c.cols), [in] { return bytes_of(in->a); }});
  if (!c.is_gemm) {
    if (is_stochastic(spec.rounding)) a.random_words = c.random_words;
    made("codes", [&] {
      add_quantized(out, dispatcher, a, in, "");
      if (!c.with_transpose) return;
      a.x = a.x.transposed();
      add_quantized(out, dispatcher, a, in, "_transposed");
    });
    return out;
  }
  QuantizeCall b = a;
  b.x = view_of(in->b.data(), c.rows_b, c.cols);
  if (!c.words_b.empty()) b.spec = quant_spec_from_words(c.words_b);
  b.place = c.place.second_operand();
  out.push_back({"b", "f32", shape_of(c.rows_b, c.cols), [in] { return bytes_of(in->b); }});
  std::optional<SparseMask> mask;
  if (c.sparsity != Sparsity::none) {
    mask = largest_kept("golden case " + c.name, c.sparsity, in->a, c.rows, c.cols);
    const Bytes metadata = metadata_of(*mask, c.sparsity);
    out.push_back({"metadata", "u8", shape_of(c.rows, static_cast<int64_t>(metadata.size()) / c.rows),
                   [metadata] { return metadata; }});
  }
  Quantized quantized_a, quantized_b;
  for (const std::string& name : c.accumulators) {
    const auto product =
        std::make_shared<std::vector<float>>(large_vector<float>(static_cast<size_t>(c.rows * c.rows_b)));
    const GemmOptions options = {accumulator_from(name, c.name), c.hadamard.product_divisor(), threads};
    const bool is_made = made("output_" + name, [&] {
      if (!mask)
        return dispatcher.multiply({.a = a, .b = b, .options = options, .c = product->data(), .c_stride = c.rows_b});
      if (quantized_a.codes.empty()) dispatcher.quantize(a, quantized_a);
      if (quantized_b.codes.empty()) dispatcher.quantize(b, quantized_b);
      sparse_gemm(dispatcher, quantized_a, quantized_b, *mask, options, product->data(), c.rows_b);
    });
    if (is_made)
      out.push_back({"output_" + name, "f32", shape_of(c.rows, c.rows_b), [product] { return bytes_of(*product); }});
  }
  return out;
}

std::vector<Array> make_arrays(const Case& c, const std::string& backend, int threads,
                               std::vector<std::string>* declined) {
  std::vector<Array> out;
  for (const LazyArray& a : lazy_arrays(c, std::make_shared<const CaseInputs>(inputs_of(c, c.given_a, c.given_b)),
                                        backend, threads, declined))
    try {
      out.push_back(a.made());
    } catch (const Declined&) {
      if (declined == nullptr) throw;
      declined->push_back(a.name);
    }
  return out;
}

}  // namespace fp4::golden
