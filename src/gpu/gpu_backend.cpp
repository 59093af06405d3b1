#include "src/gpu/gpu_backend.h"

#include <mutex>

#include "src/arith/known_words.h"
#include "src/gpu/pipeline.h"
#include "src/text/error.h"

namespace fp4 {
namespace gpu {
namespace {

// A host matrix in device memory. Contiguous matrices and their transposes keep their strides; others are packed first.
struct UploadedMatrix {
  Buffer<float> data;
  OperandElements source;
};

UploadedMatrix upload_matrix(Pool& pool, const MatrixView& x) {
  UploadedMatrix u;
  u.data = Buffer<float>(pool, x.rows * x.cols);
  u.source = {u.data.data(), x.rows, x.cols, x.cols, 1};
  if (x.col_stride == 1 && x.row_stride == x.cols) {
    u.data.upload(x.data);
  } else if (x.row_stride == 1 && x.col_stride == x.rows) {
    u.data.upload(x.data);
    u.source.row_stride = 1;
    u.source.col_stride = x.rows;
  } else {
    std::vector<float> packed;
    packed.reserve(static_cast<size_t>(x.rows * x.cols));
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t c = 0; c < x.cols; ++c) packed.push_back(x.at(r, c));
    }
    u.data.upload(packed.data());
  }
  return u;
}

class GpuBackend final : public ResidentBackend {
 public:
  explicit GpuBackend(Device* device) { use(device); }
  GpuBackend() : is_found_(false) {}
  explicit GpuBackend(Pool& resident) : resident_(&resident) {}

  const char* name() const override { return "gpu"; }
  // The process's device is looked for when somebody asks: starting a vendor's runtime takes a good part of a second.
  bool available() const override {
    const std::lock_guard lock(mutex_);
    if (!is_found_) use(this_device());
    return resident_ != nullptr || own_pool_ != nullptr;
  }
  bool was_asked() const {
    const std::lock_guard lock(mutex_);
    return is_found_;
  }
  bool supports_quantize(const QuantizeCall& call) const override {
    return is_known(call.spec) && is_known(call.hadamard) && available();
  }
  bool supports_dequantize(const Quantized& q) const override { return is_known(q.spec) && available(); }
  bool supports_gemm(const QuantSpec& a, const QuantSpec& b, const GemmOptions& options) const override {
    return is_known(a) && is_known(b) && is_known(options.accumulator) && available();
  }
  bool supports_hadamard(const HadamardSpec& h) const override { return is_known(h) && available(); }

  void quantize(const QuantizeCall& call, Quantized& out) const override {
    const std::lock_guard lock(mutex_);
    Resident r = empty(call);
    gpu::quantize(pool(), matrix(call.x).source, how(call), r);
    settle(std::move(r), out);
  }

  void quantize_all(std::span<const QuantizeCall> calls, Quantized* out) const override {
    if (resident_ == nullptr) return Backend::quantize_all(calls, out);
    const std::lock_guard lock(mutex_);
    std::vector<Resident> made;
    for (const QuantizeCall& call : calls) made.push_back(empty(call));
    std::vector<Quantisation> all;
    for (size_t i = 0; i < calls.size(); ++i) all.push_back({matrix(calls[i].x).source, how(calls[i]), &made[i]});
    quantize_together(pool(), all);
    for (Resident& r : made) settle(std::move(r), *out++);
  }

  void dequantize(const Quantized& q, float* out, int) const override {
    const std::lock_guard lock(mutex_);
    if (resident_ != nullptr) return gpu::dequantize(*resident_, *ready(&q), out);
    Buffer<float> values(pool(), q.rows * q.cols);
    gpu::dequantize(pool(), gpu::upload(pool(), q), values.data());
    values.download(out);
  }

  void gemm(const Quantized& a, const Quantized& b, const GemmOptions& options, float* c,
            int64_t c_stride) const override {
    const std::lock_guard lock(mutex_);
    multiply(gpu::upload(pool(), a), gpu::upload(pool(), b), options, c, c_stride, nullptr);
  }

  // The quantised operands never leave the device.
  bool multiply(const MultiplyCall& call) const override { return multiply_with_bias(call, nullptr); }
  bool multiply_with_bias(const MultiplyCall& call, const float* bias) const override {
    if (!supports_gemm(call.a.spec, call.b.spec, call.options) || !is_known(call.a.hadamard) ||
        !is_known(call.b.hadamard)) {
      return false;
    }
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<const Resident> ready_a = ready(call.ready_a), ready_b = ready(call.ready_b);
    Resident a = ready_a ? Resident{} : empty(call.a), b = ready_b ? Resident{} : empty(call.b);
    if (!ready_a && !ready_b) {
      const UploadedMatrix x = matrix(call.a.x), y = matrix(call.b.x);
      quantize_together(pool(), {{x.source, how(call.a), &a}, {y.source, how(call.b), &b}});
    } else if (!ready_a) {
      gpu::quantize(pool(), matrix(call.a.x).source, how(call.a), a);
    } else if (!ready_b) {
      gpu::quantize(pool(), matrix(call.b.x).source, how(call.b), b);
    }
    multiply(ready_a ? *ready_a : a, ready_b ? *ready_b : b, call.options, call.c, call.c_stride, bias);
    return true;
  }

  void hadamard(const MatrixView& x, const HadamardSpec& h, RandomPlace place, bool inverse, float* y,
                int) const override {
    const std::lock_guard lock(mutex_);
    const UploadedMatrix u = matrix(x);
    if (resident_ != nullptr) return gpu::hadamard(*resident_, u.source, h, place, inverse, y);
    Buffer<float> result(pool(), x.rows * hadamard_padded(h, x.cols));
    gpu::hadamard(pool(), u.source, h, place, inverse, result.data());
    result.download(y);
  }

 private:
  Pool& pool() const { return resident_ != nullptr ? *resident_ : *own_pool_; }
  UploadedMatrix matrix(const MatrixView& x) const {
    if (resident_ == nullptr) return upload_matrix(pool(), x);
    return {{}, {pool().floats(x.data), x.rows, x.cols, x.row_stride, x.col_stride}};
  }
  Resident empty(const QuantizeCall& call) const {
    return make_resident(pool(), call.spec, call.x.rows, hadamard_padded(call.hadamard, call.x.cols));
  }
  // Codes where the caller's matrices lie.
  void settle(Resident r, Quantized& out) const {
    if (resident_ == nullptr) return gpu::download(r, out);
    out.amax = r.spec.tensor_scale == TensorScale::hold ? gpu::amax_of(r) : 0.0f;
    out.spec = r.spec;
    out.rows = r.operand.rows, out.cols = r.operand.cols;
    out.geometry = r.geometry;
    out.resident = std::make_shared<const Resident>(std::move(r));
  }
  // An operand that was quantised before, on the device; null for null.
  std::shared_ptr<const Resident> ready(const Quantized* q) const {
    if (q == nullptr || q->resident) return q == nullptr ? nullptr : q->resident;
    return std::make_shared<const Resident>(gpu::upload(pool(), *q));
  }
  static QuantizeHow how(const QuantizeCall& call) {
    return {call.hadamard, call.place, call.held_amax, call.soft_alpha, call.row_offset};
  }

  void multiply(const Resident& a, const Resident& b, const GemmOptions& options, float* c, int64_t c_stride,
                const float* bias) const {
    const int64_t rows = a.operand.rows;
    const int64_t cols = b.operand.rows;
    if (resident_ != nullptr && c_stride == cols) return gpu::gemm(*resident_, a, b, options, c, bias);
    if (resident_ != nullptr) throw Error("gpu: a product on the device is one contiguous matrix", Error::failed);
    Buffer<float> result(pool(), rows * cols);
    gpu::gemm(pool(), a, b, options, result.data());
    if (c_stride == cols) return result.download(c);
    std::vector<float> host(static_cast<size_t>(rows * cols));
    result.download(host.data());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < cols; ++j) c[r * c_stride + j] = host[static_cast<size_t>(r * cols + j)];
    }
  }

  void use(Device* device) const {
    if (device != nullptr) own_pool_ = std::make_unique<Pool>(*device);
    is_found_ = true;
  }

  mutable bool is_found_ = true;
  mutable std::unique_ptr<Pool> own_pool_;
  Pool* resident_ = nullptr;  // where callers' matrices lie; null: on the host
  mutable std::mutex mutex_;  // sweeps call from several threads; the device does one call at a time
};

}  // namespace

std::unique_ptr<Backend> make_backend(Device* device) { return std::make_unique<GpuBackend>(device); }
std::unique_ptr<ResidentBackend> make_resident_backend(Pool& pool) { return std::make_unique<GpuBackend>(pool); }
void fetch(Quantized& q) {
  if (const std::shared_ptr<const Resident> there = std::move(q.resident)) download(*there, q);
}

}  // namespace gpu

static const gpu::GpuBackend& process_backend() {
  static const gpu::GpuBackend backend;
  return backend;
}

const Backend& gpu_backend() { return process_backend(); }
bool gpu_was_asked() { return process_backend().was_asked(); }

std::string gpu_status() {
  const gpu::Device* device = gpu::this_device();
  return device != nullptr ? device->description() : gpu::no_device_reason();
}

}  // namespace fp4
