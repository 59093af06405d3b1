#include "tools/bench/device_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>

#include "src/arith/backend_reference.h"
#include "src/arith/spec_text.h"
#include "src/golden/inputs.h"
#include "src/gpu/gpu_backend.h"
#include "src/gpu/pipeline.h"
#include "src/text/error.h"
#include "sweeps/judge/statistics.h"

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
  return sweeps::quantile(times, 0.5);
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

bool dequantises_alike(const Backend& backend, const QuantSpec& spec) {
  const std::vector<float> x = golden::make_input(golden::InputKind::boundary, spec, 67, 331, bench_place);
  Quantized q;
  reference_backend().quantize({.x = view_of(x.data(), 67, 331), .spec = spec, .place = bench_place}, q);
  std::vector<float> got(67 * 331);
  std::vector<float> expected(67 * 331);
  backend.dequantize(q, got.data(), 1);
  reference_backend().dequantize(q, expected.data(), 1);
  return same_floats(got, expected);
}

// Inputs of one kind beside heavy tails: with these most tiles are exact in any order, with those few are.
bool multiplies_alike(const Backend& backend, const QuantSpec& spec, const Accumulator& accumulator,
                      golden::InputKind kind) {
  constexpr std::array<int64_t, 3> shapes[] = {{67, 35, 331}, {150, 139, 290}};
  for (const auto& [m, n, k] : shapes) {
    for (const golden::InputKind of_b : {kind, golden::InputKind::heavy_tailed}) {
      const std::vector<float> x = golden::make_input(kind, spec, m, k, bench_place);
      const std::vector<float> y = golden::make_input(of_b, spec, n, k, bench_place.second_operand());
      Quantized a;
      Quantized b;
      reference_backend().quantize({.x = view_of(x.data(), m, k), .spec = spec, .place = bench_place}, a);
      reference_backend().quantize({.x = view_of(y.data(), n, k), .spec = spec, .place = bench_place}, b);
      std::vector<float> got(static_cast<size_t>(m * n));
      std::vector<float> expected(static_cast<size_t>(m * n));
      const GemmOptions options = {.accumulator = accumulator};
      backend.gemm(a, b, options, got.data(), n);
      reference_backend().gemm(a, b, options, expected.data(), n);
      if (!same_floats(got, expected)) return false;
    }
  }
  return true;
}

// An operand on the device, filled by repeating one band: the host need not make gigabytes.
Buffer<float> device_matrix(Pool& pool, int64_t rows, int64_t cols, golden::InputKind kind) {
  const int64_t band = std::min<int64_t>(rows, 64);
  const std::vector<float> x = golden::make_input(kind, {}, band, cols, bench_place);
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
    if (size_.rows > 0) quantisers();
    for (const int64_t n : size_.gemm) products(n);
    return rows_;
  }

 private:
  // `giga` is the work in units of 10^9; yardstick 0: none.
  void add(Measurement row, double giga, double yardstick, const std::function<void()>& work) {
    if (row.is_equal) {
      row.seconds = median_seconds(device_, size_.repeats, work);
      row.rate = giga / row.seconds;
      if (yardstick > 0) row.ratio = row.rate / yardstick;
    }
    if (yardstick <= 0) row.yardstick.clear();
    rows_.push_back(std::move(row));
  }

  void quantisers() {
    const int64_t count = size_.rows * size_.cols;
    const std::string shape = std::to_string(size_.rows) + "x" + std::to_string(size_.cols);
    const Buffer<float> x = device_matrix(pool_, size_.rows, size_.cols, golden::InputKind::gaussian);
    const OperandElements source = {x.data(), size_.rows, size_.cols, size_.cols, 1};
    Buffer<float> other(pool_, count);
    add({"copy", shape, true, 0, 0, "GB/s", ""}, 8e-9 * static_cast<double>(count), 0,
        [&] { device_.copy(other.data(), x.data(), static_cast<size_t>(count) * sizeof(float)); });
    const double copy = rows_.back().rate;
    const auto add_quantiser = [&](const std::string& what, bool is_equal, double bytes,
                                   const std::function<void()>& work) {
      add({what, shape, is_equal, 0, 0, "GB/s", "copy"}, 1e-9 * bytes, copy, work);
    };
    struct Case {
      const char* what;
      const char* words;
      int hadamard;
    };
    for (const Case& c : {Case{"quantize mxfp4", "mxfp4", 0},
                          {"quantize mxfp4 stochastic", "mxfp4,rounding=stochastic", 0},
                          {"quantize mxfp4 hadamard 32", "mxfp4", 32},
                          {"quantize nvfp4", "nvfp4", 0},
                          {"quantize ue5m3fp4", "ue5m3fp4", 0},
                          {"quantize mxfp4 32x32", "mxfp4,block=32x32", 0}}) {
      const QuantSpec spec = quant_spec_from_words(c.words);
      const HadamardSpec h = {c.hadamard, c.hadamard != 0 ? HadamardSigns::per_step : HadamardSigns::none,
                              HadamardNormalise::sqrt};
      Resident out = make_resident(pool_, spec, size_.rows, size_.cols);
      add_quantiser(c.what, quantises_alike(*backend_, spec, h), bytes(source, out), [&] {
        quantize(pool_, source, {h, bench_place}, out);
      });
    }
    Resident along = make_resident(pool_, mxfp4_spec, size_.rows, size_.cols);
    Resident across = make_resident(pool_, mxfp4_spec, size_.cols, size_.rows);
    add_quantiser("quantize mxfp4 rows and columns", quantises_alike(*backend_, mxfp4_spec, {}),
                  bytes(source, along) + bytes(source, across) - 4 * static_cast<double>(count),
                  [&] { quantize_both_ways(pool_, source, bench_place, bench_place, along, across); });
    add_quantiser("dequantize mxfp4", dequantises_alike(*backend_, mxfp4_spec), bytes(source, along),
                  [&] { dequantize(pool_, along, other.data()); });
  }

  // What has to move: floats once, codes and scales once.
  static double bytes(const OperandElements& x, const Resident& out) {
    return static_cast<double>(x.rows * x.cols * 4 + out.codes.count() + out.scales.count());
  }

  void products(int64_t n) {
    const double vendor = vendor_rate(n);
    const Accumulator& block = accumulator_table[1].row;
    product("mxfp4", "fp32_block", block, n, golden::InputKind::gaussian, vendor);
    product("mxfp4", "fp32_block, heavy tails", block, n, golden::InputKind::heavy_tailed, vendor);
    product("nvfp4", "fp32_block", block, n, golden::InputKind::gaussian, vendor);
    const Accumulator& in_order = find_row(accumulator_table, std::string_view("fma_sequential"))->row;
    for (const char* words : {"fp32", "bf16"})
      product(words, "in order", in_order, n, golden::InputKind::gaussian, vendor);
    const int64_t slow = std::min(n, size_.plain);
    for (const char* words : {"mxfp4", "nvfp4"})
      for (const AccumulatorInfo& row : accumulator_table) {
        const std::string_view name = row.name;
        if (name != "exact" && name != "k64_rz" && name != "fused35_rz") continue;
        product(words, row.name, row.row, slow, golden::InputKind::gaussian, vendor);
      }
  }
  double vendor_rate(int64_t n) {
    const double seconds = device_.vendor_bf16_gemm(n, size_.repeats);
    if (seconds <= 0) return 0;
    Measurement row = {"bf16 gemm of the vendor", cube(n), true, seconds, giga(n) / seconds, "GMAC/s", ""};
    rows_.push_back(row);
    return row.rate;
  }
  static double giga(int64_t n) {
    return 1e-9 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  }
  static std::string cube(int64_t n) { return fmt::format("{0}x{0}x{0}", n); }
  void product(const char* words, const char* accumulator, const Accumulator& row, int64_t n, golden::InputKind kind,
               double vendor) {
    const QuantSpec spec = quant_spec_from_words(words);
    const Buffer<float> x = device_matrix(pool_, n, n, kind);
    const OperandElements source = {x.data(), n, n, n, 1};
    Resident a = make_resident(pool_, spec, n, n);
    Resident b = make_resident(pool_, spec, n, n);
    quantize(pool_, source, {{}, bench_place}, a);
    quantize(pool_, source, {{}, bench_place.second_operand()}, b);
    Buffer<float> c(pool_, n * n);
    const GemmOptions options = {.accumulator = row};
    add({std::string("gemm ") + words + " " + accumulator, cube(n), multiplies_alike(*backend_, spec, row, kind), 0, 0,
         "GMAC/s", "bf16 gemm"},
        giga(n), vendor, [&] { gemm(pool_, a, b, options, c.data()); });
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
