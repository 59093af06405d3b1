#include "src/gpu/bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "src/backend_reference.h"
#include "src/error.h"
#include "src/golden/inputs.h"
#include "src/gpu/gpu_backend.h"
#include "src/gpu/pipeline.h"
#include "src/spec_text.h"

namespace fp4::gpu {
namespace {

constexpr RandomPlace bench_place = {1, 0, 1};

double median_seconds(Device& device, int repeats, const std::function<void()>& work) {
  work();  // first use: memory pool, code loading
  device.synchronise();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    device.synchronise();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Quantisation of a boundary-dense operand of odd shape by the device and by the reference.
bool quantises_alike(const Backend& backend, const QuantSpec& spec, const HadamardSpec& hadamard) {
  const std::vector<float> x = golden::make_input(golden::InputKind::boundary, spec, 67, 331, bench_place);
  const QuantizeCall call = {.x = view_of(x.data(), 67, 331), .spec = spec, .hadamard = hadamard, .place = bench_place};
  Quantized got;
  Quantized expected;
  backend.quantize(call, got);
  reference_backend().quantize(call, expected);
  return got.codes == expected.codes && got.scales == expected.scales && got.tensor_scale == expected.tensor_scale;
}

bool multiplies_alike(const Backend& backend, const QuantSpec& spec, const Accumulator& accumulator) {
  const std::vector<float> x = golden::make_input(golden::InputKind::boundary, spec, 67, 331, bench_place);
  const std::vector<float> y = golden::make_input(golden::InputKind::heavy_tailed, spec, 35, 331, bench_place);
  Quantized a;
  Quantized b;
  reference_backend().quantize({.x = view_of(x.data(), 67, 331), .spec = spec, .place = bench_place}, a);
  reference_backend().quantize({.x = view_of(y.data(), 35, 331), .spec = spec, .place = bench_place}, b);
  std::vector<float> got(67 * 35);
  std::vector<float> expected(67 * 35);
  const GemmOptions options = {.accumulator = accumulator};
  backend.gemm(a, b, options, got.data(), 35);
  reference_backend().gemm(a, b, options, expected.data(), 35);
  return same_floats(got, expected);
}

// An operand on the device, filled by repeating one band: the host need not make gigabytes.
Buffer<float> device_matrix(Pool& pool, int64_t rows, int64_t cols) {
  const int64_t band = std::min<int64_t>(rows, 64);
  const std::vector<float> x = golden::make_input(golden::InputKind::gaussian, {}, band, cols, bench_place);
  Buffer<float> data(pool, rows * cols);
  for (int64_t r = 0; r < rows; r += band) {
    const auto count = static_cast<size_t>(std::min(band, rows - r) * cols);
    pool.device().upload(data.data() + r * cols, x.data(), count * sizeof(float));
  }
  return data;
}

class Bench {
 public:
  Bench(Device& device, const BenchSize& size)
      : size_(size), pool_(device), backend_(make_backend(&device)), device_(device) {}

  std::vector<Measurement> run() {
    quantisers();
    products();
    return rows_;
  }

 private:
  void add(std::string what, bool same, double seconds, double amount, bool is_bytes, double yardstick) {
    const double rate = amount / seconds * (is_bytes ? 1e-9 : 1e-12);
    const bool has_yardstick = yardstick > 0;
    rows_.push_back({std::move(what), same, seconds, rate, is_bytes ? "GB/s" : "TFLOP/s",
                     has_yardstick ? (is_bytes ? "copy" : "bf16 gemm") : "", has_yardstick ? rate / yardstick : 0});
  }

  void quantisers() {
    const int64_t count = size_.rows * size_.cols;
    const auto elements = static_cast<double>(count);
    const Buffer<float> x = device_matrix(pool_, size_.rows, size_.cols);
    const Source source = {x.data(), size_.rows, size_.cols, size_.cols, 1};
    Buffer<float> other(pool_, count);
    const double copy_seconds = median_seconds(device_, size_.repeats, [&] {
      device_.copy(other.data(), x.data(), static_cast<size_t>(count) * sizeof(float));
    });
    add("copy", true, copy_seconds, 8 * elements, true, 0);
    const double copy = rows_.back().rate;
    struct Case {
      const char* what;
      const char* words;
      int hadamard;
    };
    for (const Case& c : {Case{"quantise mxfp4", "mxfp4", 0},
                          {"quantise mxfp4, stochastic", "mxfp4,rounding=stochastic", 0},
                          {"Hadamard 32 and quantise mxfp4", "mxfp4", 32},
                          {"quantise nvfp4", "nvfp4", 0},
                          {"quantise ue5m3fp4", "ue5m3fp4", 0},
                          {"quantise mxfp4, 32 x 32", "mxfp4,block=32x32", 0}}) {
      const QuantSpec spec = quant_spec_from_words(c.words);
      const HadamardSpec h = {c.hadamard, c.hadamard != 0 ? HadamardSigns::per_step : HadamardSigns::none,
                              HadamardNormalise::sqrt};
      Resident out = make_resident(pool_, spec, size_.rows, size_.cols);
      const double seconds = median_seconds(device_, size_.repeats, [&] {
        quantize(pool_, source, {h, bench_place}, out);
      });
      add(c.what, quantises_alike(*backend_, spec, h), seconds, bytes(source, out), true, copy);
    }
    Resident along = make_resident(pool_, mxfp4_spec, size_.rows, size_.cols);
    Resident across = make_resident(pool_, mxfp4_spec, size_.cols, size_.rows);
    const double both = median_seconds(
        device_, size_.repeats, [&] { quantize_both_ways(pool_, source, bench_place, bench_place, along, across); });
    const double written = bytes(source, along) + bytes(source, across) - 4 * elements;
    add("quantise mxfp4, rows and columns", quantises_alike(*backend_, mxfp4_spec, {}), both, written, true, copy);
    const double back = median_seconds(device_, size_.repeats, [&] { dequantize(pool_, along, other.data()); });
    add("dequantise mxfp4", true, back, bytes(source, along), true, copy);
  }

  // What has to move: floats once, codes and scales once.
  static double bytes(const Source& x, const Resident& out) {
    return static_cast<double>(x.rows * x.cols * 4 + out.codes.count() + out.scales.count());
  }

  void products() {
    const double n = static_cast<double>(size_.gemm);
    const double vendor_seconds = device_.vendor_bf16_gemm(size_.gemm, size_.repeats);
    const double vendor = vendor_seconds > 0 ? 2 * n * n * n / vendor_seconds * 1e-12 : 0;
    if (vendor > 0) add("bf16 gemm of the vendor's library", true, vendor_seconds, 2 * n * n * n, false, 0);
    for (const char* words : {"mxfp4", "nvfp4"}) {
      product(words, accumulator_table[1], size_.gemm, vendor);
      for (const AccumulatorInfo& row : accumulator_table) {
        const std::string_view name = row.name;
        if (name == "exact" || name == "k64_rz" || name == "fused35_rz") product(words, row, size_.plain, vendor);
      }
    }
  }
  void product(const char* words, const AccumulatorInfo& row, int64_t n, double vendor) {
    const QuantSpec spec = quant_spec_from_words(words);
    const Buffer<float> x = device_matrix(pool_, n, n);
    const Source source = {x.data(), n, n, n, 1};
    Resident a = make_resident(pool_, spec, n, n);
    Resident b = make_resident(pool_, spec, n, n);
    quantize(pool_, source, {{}, bench_place}, a);
    quantize(pool_, source, {{}, bench_place.second_operand()}, b);
    Buffer<float> c(pool_, n * n);
    const GemmOptions options = {.accumulator = row.row};
    const double seconds = median_seconds(device_, size_.repeats, [&] { gemm(pool_, a, b, options, c.data()); });
    const double side = static_cast<double>(n);
    add(std::string("gemm ") + words + " " + row.name + ", n = " + std::to_string(n),
        multiplies_alike(*backend_, spec, row.row), seconds, 2 * side * side * side, false, vendor);
  }

  BenchSize size_;
  Pool pool_;
  std::unique_ptr<Backend> backend_;
  Device& device_;
  std::vector<Measurement> rows_;
};

}  // namespace

std::vector<Measurement> bench(Device& device, const BenchSize& size) { return Bench(device, size).run(); }

std::vector<Measurement> bench(const BenchSize& size) {
  Device* device = this_device();
  if (device == nullptr) throw Error("bench: backend 'gpu': " + no_device_reason());
  return bench(*device, size);
}

}  // namespace fp4::gpu
