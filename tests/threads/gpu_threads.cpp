// Kernel bodies on 256 threads with a real barrier, under ThreadSanitizer: no two threads touch a word between two
// barriers unless both read it, and the bits are those of the host's loops. A race ends the program with exit code 66.
//   FP4_TEST_LEFT_OUT=ordered_gemm.h:77   that barrier is not waited for: ThreadSanitizer has to see it
//   gpu_threads PART..                    only these parts (quantise, multiply, unit, train, compare)
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "fp4/presets.h"
#include "sim/kernels/train_kernels.h"
#include "sim/train/device_training.h"
#include "src/arith/backend_reference.h"
#include "src/gpu/gpu_backend.h"
#include "src/gpu/pipeline.h"
#include "tests/support/host_device.h"

namespace fp4 {
namespace {

// The threads of one group, kept for all groups of all kernels.
class Threads {
 public:
  Threads() : start_(gpu::group_threads + 1), end_(gpu::group_threads + 1) {
    for (int i = 0; i < gpu::group_threads; ++i) {
      threads_.emplace_back([this, i] {
        gpu::own_number = i;
        for (;;) {
          start_.arrive_and_wait();
          if (!work_) return;
          work_();
          end_.arrive_and_wait();
        }
      });
    }
  }
  ~Threads() {
    work_ = nullptr;
    start_.arrive_and_wait();
    for (std::thread& t : threads_) t.join();
  }
  void run(std::function<void()> work) {
    work_ = std::move(work);
    start_.arrive_and_wait();
    end_.arrive_and_wait();
  }

 private:
  std::barrier<> start_;
  std::barrier<> end_;
  std::function<void()> work_;
  std::vector<std::thread> threads_;
};

class ThreadsDevice final : public gpu::HostMemory {
 public:
  explicit ThreadsDevice(gpu::MatrixKind kind) : HostMemory(kind, int64_t{1} << 20) {}
  std::string description() const override { return "threads"; }

#define FP4_GPU_RUN(Kernel) \
  void run(const gpu::Kernel& kernel, int64_t first, int64_t count) override { loop(kernel, first, count); }
  FP4_GPU_KERNELS(FP4_GPU_RUN)
#undef FP4_GPU_RUN

 private:
  template <class Kernel>
  void loop(const Kernel& kernel, int64_t first, int64_t count) {
    std::vector<gpu::FourWords> shared((Kernel::shared_words + 3) / 4);
    for (int64_t group = first; group < first + count; ++group) {
      threads_.run([&] { kernel(gpu::Group{}, group, shared.data()->v); });
    }
  }
  Threads threads_;
};

int wrong = 0;

template <class T>
void expect_same(const char* what, const T* got, const T* expected, int64_t n) {
  if (std::memcmp(got, expected, static_cast<size_t>(n) * sizeof(T)) == 0) return;
  std::printf("%s: other bits\n", what);
  ++wrong;
}

std::vector<float> numbers(int64_t n, uint32_t seed) {
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int32_t>(seed >> 8) % 2001 - 1000) / 256.0f;
  }
  return x;
}

constexpr RandomPlace place = {5, 3, 2};

void quantise(ThreadsDevice& device, const char* what, const QuantSpec& spec, int64_t rows, int64_t cols,
              bool is_turned = false, int hadamard = 0) {
  const std::vector<float> x = numbers(rows * cols, 1);
  QuantizeCall call;
  call.x = is_turned ? view_of(x.data(), cols, rows).transposed() : view_of(x.data(), rows, cols);
  call.spec = spec;
  call.place = place;
  call.hadamard.size = hadamard;
  Quantized got, expected;
  const std::unique_ptr<Backend> backend = gpu::make_backend(&device);
  backend->quantize(call, got);
  reference_backend().quantize(call, expected);
  if (got.codes != expected.codes || got.scales != expected.scales || got.tensor_scale != expected.tensor_scale) {
    std::printf("%s: other codes\n", what);
    ++wrong;
  }
}

void quantise_all(ThreadsDevice& device) {
  QuantSpec square = mxfp4_spec, drawn = mxfp4_spec, tensor = mxfp4_spec, outer = nvfp4_spec, odd = mxfp4_spec;
  square.block = {BlockKind::square, 32};
  drawn.rounding = Rounding::stochastic, drawn.random_bits = 8;
  tensor.block.kind = BlockKind::tensor;
  outer.tensor_scale = TensorScale::outer128;
  odd.prescale = 0.75f;
  quantise(device, "runs", mxfp4_spec, 9, 64);
  quantise(device, "turned runs", drawn, 64, 64, true);
  quantise(device, "turned runs with mantissas", nvfp4_spec, 64, 64, true);
  quantise(device, "tiles", odd, 5, 70);
  quantise(device, "long rows", odd, 3, 300);
  quantise(device, "rotated tiles", mxfp4_spec, 5, 64, false, 32);
  quantise(device, "tensor scale", nvfp4_spec, 20, 64);
  quantise(device, "rotated, tensor scale", nvfp4_spec, 64, 64, false, 16);  // a whole tile
  quantise(device, "2-D blocks", square, 40, 70);
  quantise(device, "one block", tensor, 40, 70);
  quantise(device, "outer scales", outer, 3, 260);
  // Rows and columns in one pass, by whole runs and by tiles.
  for (const auto& [spec, rows, cols] :
       {std::tuple(mxfp4_spec, 64, 64), std::tuple(nvfp4_spec, 64, 32), std::tuple(odd, 40, 70)}) {
    QuantSpec plain = spec;
    plain.tensor_scale = TensorScale::none;
    const std::vector<float> x = numbers(int64_t{rows} * cols, 2);
    gpu::Pool pool(device);
    gpu::Buffer<float> values(pool, int64_t{rows} * cols);
    values.upload(x.data());
    gpu::Resident along = gpu::make_resident(pool, plain, rows, cols),
                  across = gpu::make_resident(pool, plain, cols, rows);
    gpu::quantize_both_ways(pool, {values.data(), rows, cols, cols, 1}, place, place.second_operand(), along, across);
    Quantized got, expected;
    gpu::download(across, got);
    QuantizeCall call;
    call.x = view_of(x.data(), rows, cols).transposed();
    call.spec = plain;
    call.place = place.second_operand();
    reference_backend().quantize(call, expected);
    expect_same("both ways", got.codes.data(), expected.codes.data(), static_cast<int64_t>(expected.codes.size()));
  }
}

void multiply(ThreadsDevice& device, const char* what, const QuantSpec& spec, const Accumulator& row, int64_t m,
              int64_t n, int64_t k) {
  const std::vector<float> a = numbers(m * k, 3), b = numbers(n * k, 4);
  MultiplyCall call;
  call.a = {.x = view_of(a.data(), m, k), .spec = spec, .place = place};
  call.b = {.x = view_of(b.data(), n, k), .spec = spec, .place = place.second_operand()};
  call.options.accumulator = row;
  std::vector<float> got(static_cast<size_t>(m * n)), expected = got;
  call.c = got.data();
  call.c_stride = n;
  gpu::make_backend(&device)->multiply(call);
  Quantized qa, qb;
  reference_backend().quantize(call.a, qa);
  reference_backend().quantize(call.b, qb);
  reference_backend().gemm(qa, qb, call.options, expected.data(), n);
  expect_same(what, got.data(), expected.data(), m * n);
}

const Accumulator& adder(std::string_view name) { return find_row(accumulator_table, name)->row; }

void multiply_all(ThreadsDevice& device) {
  QuantSpec plain;
  plain.element = Element::fp32;
  plain.scale = Scale::none;
  multiply(device, "in order", plain, adder("fma_sequential"), 9, 21, 70);
  multiply(device, "in integers of 64 bits", mxfp4_spec, adder("k64_rz"), 17, 9, 200);
  multiply(device, "one output a thread", mxfp4_spec, adder("fp32_sequential"), 5, 7, 64);
}

void multiply_on_units(ThreadsDevice& device) {
  multiply(device, "blocks of 32", mxfp4_spec, fp32_block, 9, 21, 300);
  multiply(device, "blocks of 16", nvfp4_spec, fp32_block, 9, 21, 300);
}

// The trainer's loops against the CPU's.
void train_all(ThreadsDevice& device) {
  const sim::DeviceScope scope(device);
  const sim::Kernels &k = sim::device::table, &cpu = sim::generic::table;
  constexpr int rows = 33, cols = 40, square = 20;
  constexpr int64_t n = int64_t{rows} * cols;
  const std::vector<float> x = numbers(n, 5), y = numbers(n, 6), gain = numbers(cols, 7);
  std::vector<int32_t> labels;
  for (int r = 0; r < rows; ++r) labels.push_back(r % cols);
  std::vector<float> got(x), expected(x), sums(static_cast<size_t>(n)), cpu_sums(sums);
  // Memory of this device is the host's.
  k.softmax_loss(got.data(), sums.data(), y.data(), labels.data(), rows, cols);
  cpu.softmax_loss(expected.data(), cpu_sums.data(), y.data(), labels.data(), rows, cols);
  expect_same("softmax", got.data(), expected.data(), n);
  expect_same("losses", sums.data(), cpu_sums.data(), rows);
  k.square_loss(sums.data(), x.data(), y.data(), rows, cols);
  cpu.square_loss(cpu_sums.data(), x.data(), y.data(), rows, cols);
  expect_same("square loss", sums.data(), cpu_sums.data(), rows);
  k.rmsnorm(got.data(), sums.data(), x.data(), gain.data(), 1e-5f, rows, cols);
  cpu.rmsnorm(expected.data(), cpu_sums.data(), x.data(), gain.data(), 1e-5f, rows, cols);
  expect_same("norm", got.data(), expected.data(), n);
  std::vector<float> dgain(gain), cpu_dgain(gain);
  k.rmsnorm_backward(got.data(), dgain.data(), y.data(), x.data(), sums.data(), gain.data(), rows, cols);
  cpu.rmsnorm_backward(expected.data(), cpu_dgain.data(), y.data(), x.data(), cpu_sums.data(), gain.data(), rows, cols);
  expect_same("norm backward", got.data(), expected.data(), n);
  expect_same("gains", dgain.data(), cpu_dgain.data(), cols);
  got = x, expected = x;
  k.causal_softmax(got.data(), 0.25f, square, 1);
  cpu.causal_softmax(expected.data(), 0.25f, square, 1);
  std::vector<float> back(y), cpu_back(y);
  k.causal_softmax_backward(back.data(), got.data(), 0.25f, square, 1);
  cpu.causal_softmax_backward(cpu_back.data(), expected.data(), 0.25f, square, 1);
  expect_same("causal softmax", got.data(), expected.data(), n);
  expect_same("causal softmax backward", back.data(), cpu_back.data(), n);
  const std::vector<float> many = numbers(9000, 8);  // three tiles
  const float total = k.dot(many.data(), many.data(), 9000), cpu_total = cpu.dot(many.data(), many.data(), 9000);
  expect_same("dot", &total, &cpu_total, 1);
  if (!k.all_finite(many.data(), 9000)) ++wrong;
  std::vector<float> c(static_cast<size_t>(rows * rows)), packed(static_cast<size_t>(48 * cols)), cpu_c(c);
  k.device->products({c.data(), {rows, 1}, x.data(), {cols, 1}, y.data(), {1, cols}, rows, rows, cols});
  packed.resize(static_cast<size_t>((rows + cpu.panel_width) * cols));
  cpu.pack(packed.data(), y.data(), 1, cols, cols, rows);
  cpu.gemm(cpu_c.data(), rows, x.data(), cols, 1, packed.data(), rows, rows, cols);
  expect_same("product", c.data(), cpu_c.data(), rows * rows);
}

void compare_all(ThreadsDevice& device) {
  gpu::Pool pool(device);
  std::vector<uint32_t> a(5000, 7), b(a);
  b[4321] = 8;
  if (gpu::compare_bits(pool, a.data(), b.data(), 5000).first != 4321) ++wrong;
  static_cast<void>(gpu::probe_native(pool));
}

}  // namespace
}  // namespace fp4

int main(int count, char** words) {
  using namespace fp4;
  if (const char* text = std::getenv("FP4_TEST_LEFT_OUT"); text != nullptr && *text != 0) {
    const std::string at = text;
    gpu::left_out_file = "/" + at.substr(0, at.find(':'));
    gpu::left_out_line = static_cast<unsigned>(std::stoul(at.substr(at.find(':') + 1)));
  }
  const auto wants = [&](const char* part) {
    bool named = count == 1;
    for (int i = 1; i < count; ++i) named |= std::string_view(words[i]) == part;
    return named;
  };
  {
    ThreadsDevice device(gpu::MatrixKind::none);
    if (wants("quantise")) quantise_all(device);
    if (wants("multiply")) multiply_all(device);
    if (wants("train")) train_all(device);
    if (wants("compare")) compare_all(device);
  }
  if (wants("unit")) {
    for (const gpu::MatrixKind kind : {gpu::MatrixKind::nvidia, gpu::MatrixKind::amd}) {
      ThreadsDevice device(kind);
      multiply_on_units(device);
    }
  }
  std::printf("%d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
