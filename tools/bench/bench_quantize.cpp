#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "src/arith/spec_text.h"
#include "src/text/error.h"
#include "tools/bench/benches.h"

namespace fp4::tools {
namespace {

constexpr int64_t cols = 4096;
constexpr int64_t checked_rows = 48;

// Passes over one tensor, each checked on its first rows as it is added.
class Passes {
 public:
  Passes(const PassBenchOptions& o, const Dispatcher& backend, const BenchReport& report)
      : o_(o),
        backend_(backend),
        report_(report),
        rows_(std::max<int64_t>(o.elements / cols, 16)),
        x_(gaussian(rows_ * cols, 3)) {
    y_.resize(x_.size());
    const double bytes = static_cast<double>(rows_ * cols) * sizeof(float);
    all_ = {{"memcpy", "libc", bytes, true, [this] { std::memcpy(y_.data(), x_.data(), x_.size() * sizeof(float)); }},
            {"read", "-", bytes, false, [this] { sink_ = read_all(x_.data(), rows_ * cols); }}};
  }

  void quantize(const std::string& words, const HadamardSpec& hadamard = {}) {
    QuantizeCall call = call_of(words, hadamard);
    std::string name = "quantize " + words;
    if (hadamard.size > 0) name += fmt::format(" after hadamard {}", hadamard.size);
    report_.progress(0, 1, "checking " + name);
    check(name, call);
    auto out = std::make_shared<Quantized>();
    const Backend* fast = fast_path([&] { return &backend_.for_quantize(call); });
    if (fast == nullptr) call.x.rows = smaller_rows();
    add(name, fast,
        [this, call, out, fast] { fast ? backend_.quantize(call, *out) : reference_backend().quantize(call, *out); });
  }

  void dequantize(const std::string& words) {
    auto stored = std::make_shared<Quantized>();
    QuantizeCall call = call_of(words, {});
    const Dispatcher any;
    any.quantize(call, *stored);
    Quantized part;
    call.x.rows = smaller_rows();
    reference_backend().quantize(call, part);
    const Backend* fast = fast_path([&] { return &backend_.for_dequantize(*stored); });
    if (fast == nullptr) *stored = part;
    std::vector<float> expected(static_cast<size_t>(call.x.rows * cols));
    std::vector<float> got(expected.size());
    reference_backend().dequantize(part, expected.data(), 1);
    const std::string name = "dequantize " + words;
    if (fast != nullptr) {
      backend_.dequantize(part, got.data(), o_.threads);
      require_equal(name, got.data(), expected.data(), got.size() * sizeof(float));
    }
    add(name, fast, [this, stored, fast] {
      fast ? backend_.dequantize(*stored, y_.data(), o_.threads)
           : reference_backend().dequantize(*stored, y_.data(), o_.threads);
    });
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
    add(name, &backend_.for_hadamard(spec), [this, spec, place, inverse] {
      backend_.hadamard(view_of(x_.data(), rows_, cols), spec, place, inverse, y_.data(), o_.threads);
    });
  }

  void run() const {
    const int64_t thousands = (rows_ * cols) >> 10;
    const std::string size =
        thousands % 1024 == 0 ? fmt::format("{}M", thousands >> 10) : fmt::format("{}K", thousands);
    race({size + " floats", "GB/s", "memcpy", o_.threads, o_.rounds}, all_, report_);
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

  // Null where none has it: a forced backend declines, or the reference is what is left.
  template <class Find>
  const Backend* fast_path(const Find& find) const {
    const Backend* found = nullptr;
    try {
      found = find();
    } catch (const Error&) {
    }
    return found == &reference_backend() && backend_.name() != found->name() ? nullptr : found;
  }

  void check(const std::string& name, QuantizeCall call) const {
    call.x.rows = smaller_rows();
    if (fast_path([&] { return &backend_.for_quantize(call); }) == nullptr) return;
    Quantized got;
    Quantized expected;
    backend_.quantize(call, got);
    reference_backend().quantize(call, expected);
    require_equal(name, got.codes.data(), expected.codes.data(), expected.codes.size());
    require_equal(name, got.scales.data(), expected.scales.data(), expected.scales.size());
    require_equal(name, got.real_scales.data(), expected.real_scales.data(),
                  expected.real_scales.size() * sizeof(float));
  }

  void add(const std::string& name, const Backend* fast, std::function<void()> run) {
    const double bytes = static_cast<double>((fast ? rows_ : smaller_rows()) * cols) * sizeof(float);
    all_.push_back({name + (fast ? "" : fmt::format(", {} rows", smaller_rows())),
                    (fast ? *fast : reference_backend()).name(), bytes, false, std::move(run)});
  }

  const PassBenchOptions& o_;
  const Dispatcher& backend_;
  const BenchReport& report_;
  int64_t rows_;
  std::vector<float> x_, y_;
  std::vector<Contestant> all_;
  volatile float sink_ = 0;
};

}  // namespace

void bench_quantize(const PassBenchOptions& o, const Dispatcher& backend, const BenchReport& report) {
  Passes passes(o, backend, report);
  if (!o.specs.empty()) {
    for (const std::string& words : o.specs) passes.quantize(words);
    for (const std::string& words : o.specs) passes.dequantize(words);
    return passes.run();
  }
  for (const char* words : {"mxfp4", "mxfp4,scale_rule=rceil", "mxfp4,rounding=stochastic"}) passes.quantize(words);
  passes.quantize("mxfp4", {32, HadamardSigns::fixed, HadamardNormalise::sqrt});
  for (const char* words : {"nvfp4", "nvfp4,rounding=stochastic", "ue5m3fp4", "te_nvfp4", "fouroversix", "mxfp8"})
    passes.quantize(words);
  for (const char* words : {"mxfp4", "nvfp4", "mxfp8"}) passes.dequantize(words);
  passes.run();
}

void bench_hadamard(const PassBenchOptions& o, const Dispatcher& backend, const BenchReport& report) {
  Passes passes(o, backend, report);
  for (const int size : hadamard_sizes) passes.hadamard({size, HadamardSigns::none, HadamardNormalise::sqrt}, false);
  passes.hadamard({32, HadamardSigns::per_step, HadamardNormalise::sqrt}, false);
  passes.hadamard({32, HadamardSigns::per_step, HadamardNormalise::sqrt}, true);
  for (const int size : hadamard_sizes) {
    passes.quantize("mxfp4", {size, HadamardSigns::fixed, HadamardNormalise::sqrt});
  }
  passes.run();
}

}  // namespace fp4::tools
