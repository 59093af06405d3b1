#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "src/arith/spec_text.h"
#include "src/text/error.h"
#include "tools/bench/benches.h"

namespace fp4::tools {
namespace {

struct ProductCase {
  std::string name;
  QuantSpec spec;
  GemmOptions options;
};

std::vector<ProductCase> cases_of(const GemmBenchOptions& o, bool are_multiplied = true) {
  std::vector<std::pair<std::string, std::string>> words;
  if (o.specs.empty() && o.accumulators.empty())
    words = {{"mxfp4", "fp32_block"}, {"mxfp4", "exact"},           {"mxfp4", "k64_rz"},
             {"mxfp4", "fused35_rz"}, {"nvfp4", "fp32_block"},      {"nvfp4", "k64_rz"},
             {"nvfp4", "fused35_rz"}, {"ue5m3fp4", "fp32_block"},   {"mxfp4", "fused25_rz"},
             {"mxfp8", "fp32_block"}, {"mxfp4", "fp32_sequential"}, {"fp32", "fma_sequential"}};
  for (const std::string& spec : !words.empty() || !o.specs.empty() ? o.specs : std::vector<std::string>{"mxfp4"})
    for (const std::string& sum : o.accumulators.empty() ? std::vector<std::string>{"fp32_block"} : o.accumulators)
      words.emplace_back(spec, sum);
  std::vector<ProductCase> list;
  for (const auto& [spec, sum] : words) {
    list.push_back({spec + " " + sum, quant_spec_from_words(spec, "--specs"), {}});
    ProductCase& made = list.back();
    made.options.accumulator = accumulator_from_words(sum, "--accumulators");
    made.options.threads = o.threads;
    const std::string reason = invalid_reason(made.options.accumulator, made.spec, made.spec);
    if (are_multiplied && !reason.empty()) throw Error("--specs " + spec + " --accumulators " + sum, reason);
  }
  return list;
}

struct Operands {
  std::vector<float> a, b;
};

// Gaussian [n, n] pairs; with a spread, every run of `block` elements of a row has a power of two of its own.
class Data {
 public:
  Data(int64_t n, int spread) : n_(n), spread_(spread) {}

  const Operands& of(const QuantSpec& spec) {
    const bool vectors = spec.has_scale() && spec.block.kind == BlockKind::vector;
    const int64_t block = spread_ == 0 ? 0 : (vectors ? spec.block.size : 32);
    Operands& made = by_block_[block];
    if (!made.a.empty()) return made;
    made = {gaussian(n_ * n_, 1), gaussian(n_ * n_, 2)};
    if (block == 0) return made;
    std::mt19937 random(3);
    for (std::vector<float>* x : {&made.a, &made.b}) {
      for (int64_t row = 0; row < n_; ++row)
        for (int64_t k = 0; k < n_; ++k) {
          if (k % block == 0)
            factor_ = std::ldexp(1.0f, static_cast<int>(random() % static_cast<uint32_t>(spread_ + 1)));
          (*x)[static_cast<size_t>(row * n_ + k)] *= factor_;
        }
    }
    return made;
  }

 private:
  int64_t n_;
  int spread_;
  float factor_ = 1;
  std::map<int64_t, Operands> by_block_;
};

// The rows from `first` on of an operand that is one block.
Quantized last_rows(const QuantSpec& spec, const MatrixView& x, int64_t first) {
  QuantizeCall call = {.x = x, .spec = spec};
  Quantized q;
  reference_backend().quantize(call, q);
  q.codes.erase(q.codes.begin(), q.codes.begin() + first * q.code_row_bytes());
  q.rows -= first;
  q.geometry = geometry_of(spec, q.rows, q.cols);
  return q;
}

// The product of the last rows of A and B, recomputed by the reference from the same tensor amax.
void check_product(const std::string& name, const QuantSpec& spec, const GemmOptions& options, int64_t n,
                   const Operands& x, float amax_a, float amax_b, const std::vector<float>& c) {
  const Dispatcher reference("reference");
  const int64_t step = spec.has_scale() && spec.block.kind == BlockKind::square ? spec.block.size : 1;
  const int64_t first = (n - 32) / step * step;
  const int64_t rows = n - first;
  MultiplyCall call;
  call.options = options;
  call.a.x = view_of(x.a.data() + first * n, rows, n);
  call.b.x = view_of(x.b.data() + first * n, rows, n);
  call.a.spec = call.b.spec = spec;
  const bool has_one_scale = spec.has_tensor_scale() && spec.tensor_scale_cols(n) == 0;  // of all rows
  if (has_one_scale) call.a.spec.tensor_scale = call.b.spec.tensor_scale = TensorScale::hold;
  call.a.held_amax = amax_a;
  call.b.held_amax = amax_b;
  Quantized ready[2];
  if (spec.has_scale() && spec.block.kind == BlockKind::tensor) {
    ready[0] = last_rows(spec, view_of(x.a.data(), n, n), first);
    ready[1] = last_rows(spec, view_of(x.b.data(), n, n), first);
    call.ready_a = &ready[0];
    call.ready_b = &ready[1];
  }
  std::vector<float> expected(static_cast<size_t>(rows * rows));
  std::vector<float> got(expected.size());
  call.c = expected.data();
  call.c_stride = rows;
  reference.multiply(call);
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(got.data() + r * rows, c.data() + (first + r) * n + first, static_cast<size_t>(rows) * sizeof(float));
  require_equal(name, got.data(), expected.data(), got.size() * sizeof(float));
}

void add_yardsticks(const Yardstick& yardstick, int64_t n, const Operands& x, std::vector<float>& c,
                    std::vector<Contestant>& all) {
  const double work = std::pow(static_cast<double>(n), 3);
  if (yardstick.has_openblas()) {
    all.push_back(
        {"sgemm", "openblas", work, true, [&, n] { yardstick.sgemm_openblas(n, x.a.data(), x.b.data(), c.data()); }});
  }
  if (!yardstick.has_onednn()) return;
  all.push_back(
      {"sgemm", "onednn", work, true, [&, n] { yardstick.sgemm_onednn(n, x.a.data(), x.b.data(), c.data()); }});
  const auto cells = static_cast<size_t>(n * n);
  all.push_back(
      {"int8 gemm, unscaled", "onednn", work, false,
       [&, n, a = std::vector<uint8_t>(cells, 3), b = std::vector<int8_t>(cells, 5),
        sums = std::vector<int32_t>(cells)]() mutable { yardstick.int8_onednn(n, a.data(), b.data(), sums.data()); }});
}

// A linear layer's training step: six operands quantised along their contraction, three products.
void training_step(const Dispatcher& backend, int64_t n, const Operands& x, int threads, std::vector<float>& c) {
  static const QuantSpec mxfp4 = quant_spec_from_words("mxfp4");
  const MatrixView left = view_of(x.a.data(), n, n);
  const MatrixView right = view_of(x.b.data(), n, n);
  const std::pair<MatrixView, MatrixView> products[] = {
      {left, right}, {left, right.transposed()}, {left.transposed(), right.transposed()}};
  for (const auto& [a, b] : products) {
    MultiplyCall call;
    call.a.x = a;
    call.b.x = b;
    call.a.spec = call.b.spec = mxfp4;
    call.a.threads = call.b.threads = call.options.threads = threads;
    call.c = c.data();
    call.c_stride = n;
    backend.multiply(call);
  }
}

void bench_size(const GemmBenchOptions& o, int64_t n, const Dispatcher& chosen, const Yardstick& yardstick,
                const BenchReport& report) {
  const Dispatcher reference("reference");
  Data data(n, o.scale_spread);
  const Operands& plain = data.of({});
  std::vector<float> c(static_cast<size_t>(n * n));
  const double work = std::pow(static_cast<double>(n), 3);
  std::vector<Contestant> all;
  add_yardsticks(yardstick, n, plain, c, all);
  const std::vector<ProductCase> cases = cases_of(o);
  for (const ProductCase& product : cases) {
    const std::string& name = product.name;
    const QuantSpec& spec = product.spec;
    const GemmOptions& options = product.options;
    report.progress(all.size(), cases.size(), "checking " + name);
    std::string tier = gemm_tier(chosen, spec, spec, options);
    if (tier == "-") tier = reference.name();
    const bool is_slow = tier == reference.name() && chosen.name() != tier;  // a few rows of A take long enough
    const Dispatcher& backend = is_slow ? reference : chosen;
    const int64_t rows_a = is_slow ? std::min<int64_t>(n, 16) : n;
    const Operands& x = data.of(spec);
    auto a = std::make_shared<Quantized>();
    auto b = std::make_shared<Quantized>();
    QuantizeCall call = {.x = view_of(x.a.data(), rows_a, n), .spec = spec};
    backend.quantize(call, *a);
    call.x = view_of(x.b.data(), n, n);
    backend.quantize(call, *b);
    if (!is_slow) {
      backend.gemm(*a, *b, options, c.data(), n);
      check_product(name, spec, options, n, x, a->amax, b->amax, c);
    }
    all.push_back({"gemm " + name + (is_slow ? fmt::format(", {} rows of A", rows_a) : ""), tier,
                   work * static_cast<double>(rows_a) / static_cast<double>(n), false,
                   [backend, a, b, options, &c, n] { backend.gemm(*a, *b, options, c.data(), n); }});
  }
  all.push_back({"linear training step mxfp4", chosen.name(), 3 * work, false,
                 [&] { training_step(chosen, n, plain, o.threads, c); }});
  race({fmt::format("{0}x{0}x{0}", n), "GMAC/s", "sgemm", o.threads, o.rounds}, all, report);
}

}  // namespace

void bench_gemm(const GemmBenchOptions& o, const Dispatcher& backend, const Yardstick& yardstick,
                const BenchReport& report) {
  for (const int64_t n : o.sizes) bench_size(o, n, backend, yardstick, report);
}

void check_words(const GemmBenchOptions& o, bool are_multiplied) { cases_of(o, are_multiplied); }

}  // namespace fp4::tools
