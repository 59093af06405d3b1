#include "tools/bench/bench_quantize.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "src/arith/spec_text.h"
#include "src/text/error.h"
#include "tools/bench/bench_yardstick.h"

namespace fp4::tools {
namespace {

constexpr int64_t cols = 4096;
constexpr int64_t checked_rows = 48;

// Passes over one tensor, each checked on its first rows as it is added.
class Passes {
 public:
  Passes(const PassBenchOptions& o, const Dispatcher& backend)
      : o_(o), backend_(backend), rows_(std::max<int64_t>(o.elements / cols, 16)), x_(gaussian(rows_ * cols, 3)) {
    y_.resize(x_.size());
    add("memcpy", "libc", true, [this] { std::memcpy(y_.data(), x_.data(), x_.size() * sizeof(float)); });
    add("read", "-", false, [this] { sink_ = read_all(x_.data(), rows_ * cols); });
  }

  void quantize(const std::string& words, const HadamardSpec& hadamard = {}) {
    QuantizeCall call = call_of(words, hadamard);
    std::string name = "quantize " + words;
    if (hadamard.size > 0) name += fmt::format(" after hadamard {}", hadamard.size);
    check(name, call);
    auto out = std::make_shared<Quantized>();
    add(name, backend_.for_quantize(call).name(), false, [this, call, out] { backend_.quantize(call, *out); });
  }

  void dequantize(const std::string& words) {
    auto stored = std::make_shared<Quantized>();
    QuantizeCall call = call_of(words, {});
    backend_.quantize(call, *stored);
    Quantized part;
    call.x.rows = smaller_rows();
    reference_backend().quantize(call, part);
    std::vector<float> expected(static_cast<size_t>(call.x.rows * cols));
    std::vector<float> got(expected.size());
    reference_backend().dequantize(part, expected.data(), 1);
    backend_.dequantize(part, got.data(), o_.threads);
    const std::string name = "dequantize " + words;
    require_equal(name, got.data(), expected.data(), got.size() * sizeof(float));
    add(name, backend_.for_dequantize(*stored).name(), false,
        [this, stored] { backend_.dequantize(*stored, y_.data(), o_.threads); });
  }

  void hadamard(const HadamardSpec& spec, bool inverse) {
    std::string name = fmt::format("hadamard {}", spec.size);
    if (spec.signs != HadamardSigns::none) name += std::string(", ") + row_of(hadamard_signs_table, spec.signs).name;
    if (inverse) name += ", inverse";
    const RandomPlace place = RandomPlace{}.hadamard_signs();
    const MatrixView part = view_of(x_.data(), smaller_rows(), cols);
    std::vector<float> expected(static_cast<size_t>(part.rows * cols));
    std::vector<float> got(expected.size());
    reference_backend().hadamard(part, spec, place, inverse, expected.data(), 1);
    backend_.hadamard(part, spec, place, inverse, got.data(), o_.threads);
    require_equal(name, got.data(), expected.data(), got.size() * sizeof(float));
    add(name, backend_.for_hadamard(spec).name(), false, [this, spec, place, inverse] {
      backend_.hadamard(view_of(x_.data(), rows_, cols), spec, place, inverse, y_.data(), o_.threads);
    });
  }

  void run(std::vector<BenchRow>& rows) const {
    const int64_t thousands = (rows_ * cols) >> 10;
    const std::string size =
        thousands % 1024 == 0 ? fmt::format("{}M", thousands >> 10) : fmt::format("{}K", thousands);
    race({size + " floats", "GB/s", "memcpy", o_.threads, o_.rounds}, all_, rows);
  }

 private:
  int64_t smaller_rows() const { return std::min(rows_, checked_rows); }

  QuantizeCall call_of(const std::string& words, const HadamardSpec& hadamard) const {
    QuantizeCall call;
    call.x = view_of(x_.data(), rows_, cols);
    call.spec = quant_spec_from_words(words, "--specs");
    call.hadamard = hadamard;
    call.threads = o_.threads;
    return call;
  }

  void check(const std::string& name, QuantizeCall call) const {
    call.x.rows = smaller_rows();
    Quantized got;
    Quantized expected;
    backend_.quantize(call, got);
    reference_backend().quantize(call, expected);
    require_equal(name, got.codes.data(), expected.codes.data(), expected.codes.size());
    require_equal(name, got.scales.data(), expected.scales.data(), expected.scales.size());
    require_equal(name, got.real_scales.data(), expected.real_scales.data(),
                  expected.real_scales.size() * sizeof(float));
  }

  void add(const std::string& name, const std::string& backend, bool is_baseline, std::function<void()> run) {
    const double bytes = static_cast<double>(rows_ * cols) * sizeof(float);
    all_.push_back({name, backend, bytes, is_baseline, std::move(run)});
  }

  const PassBenchOptions& o_;
  const Dispatcher& backend_;
  int64_t rows_;
  std::vector<float> x_, y_;
  std::vector<Contestant> all_;
  volatile float sink_ = 0;
};

}  // namespace

void bench_quantize(const PassBenchOptions& o, const Dispatcher& backend, std::vector<BenchRow>& rows) {
  Passes passes(o, backend);
  if (!o.specs.empty()) {
    for (const std::string& words : o.specs) passes.quantize(words);
    for (const std::string& words : o.specs) passes.dequantize(words);
    return passes.run(rows);
  }
  for (const char* words : {"mxfp4", "mxfp4,scale_rule=rceil", "mxfp4,rounding=stochastic"}) passes.quantize(words);
  passes.quantize("mxfp4", {32, HadamardSigns::fixed, HadamardNormalise::sqrt});
  for (const char* words : {"nvfp4", "nvfp4,rounding=stochastic", "ue5m3fp4", "te_nvfp4", "fouroversix", "mxfp8"}) {
    passes.quantize(words);
  }
  for (const char* words : {"mxfp4", "nvfp4", "mxfp8"}) passes.dequantize(words);
  passes.run(rows);
}

void bench_hadamard(const PassBenchOptions& o, const Dispatcher& backend, std::vector<BenchRow>& rows) {
  Passes passes(o, backend);
  for (const int size : hadamard_sizes) passes.hadamard({size, HadamardSigns::none, HadamardNormalise::sqrt}, false);
  passes.hadamard({32, HadamardSigns::per_step, HadamardNormalise::sqrt}, false);
  passes.hadamard({32, HadamardSigns::per_step, HadamardNormalise::sqrt}, true);
  for (const int size : hadamard_sizes) {
    passes.quantize("mxfp4", {size, HadamardSigns::fixed, HadamardNormalise::sqrt});
  }
  passes.run(rows);
}

}  // namespace fp4::tools
