// The device of a build with FP4_GPU=cuda or hip: memory, copies and launches over the vendor's runtime. Every call is
// checked; a failure becomes one fp4::Error that names the call and the vendor's reason.
// clang-format off: the vendor's words come first
#include "src/gpu/runtime.h"
// clang-format on
#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/gpu/device.h"
#include "src/gpu/entry_points.h"
#include "src/gpu/pipeline.h"
#include "src/text/error.h"

namespace fp4::gpu {
namespace {

void check(gpuError_t error, const char* call) {
  if (error == gpuSuccess) return;
  throw Error(
      std::string("gpu: ") + call + " failed: " + gpuGetErrorName(error) + " (" + gpuGetErrorString(error) + ")",
      Error::failed);
}

// A framework's stream 0 is the one default stream of the device; here, compiled so, 0 is the thread's own.
#if FP4_GPU_CUDA
constexpr MatrixKind own_unit = MatrixKind::nvidia;
const gpuStream_t framework_default = cudaStreamLegacy;
#else
constexpr MatrixKind own_unit = MatrixKind::amd;
const gpuStream_t framework_default = nullptr;
#endif

// The vendor's bf16 gemm, loaded when it is there: nothing links to it. Numbers are those of cublas_api.h and
// rocblas-types.h (bf16 operands, fp32 result and sums).
class VendorGemm {
 public:
  VendorGemm() {
#if FP4_GPU_CUDA
    for (const char* file : {"libcublas.so", "libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}) {
      if (library_ == nullptr) library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    constexpr const char* names[] = {"cublasCreate_v2", "cublasGemmEx"};
#else
    for (const char* file : {"librocblas.so", "librocblas.so.5", "librocblas.so.4", "librocblas.so.0"}) {
      if (library_ == nullptr) library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    constexpr const char* names[] = {"rocblas_create_handle", "rocblas_gemm_ex"};
#endif
    if (library_ == nullptr) return;
    const auto create = reinterpret_cast<int (*)(void**)>(dlsym(library_, names[0]));
    gemm_ = reinterpret_cast<Gemm>(dlsym(library_, names[1]));
    if (create == nullptr || create(&handle_) != 0) gemm_ = nullptr;
  }
  bool is_here() const { return gemm_ != nullptr; }
  bool multiply(int n, const void* a, const void* b, void* c) const {
    const float one = 1.0f;
    const float zero = 0.0f;
#if FP4_GPU_CUDA  // transposed, plain; CUDA_R_16BF 14, CUDA_R_32F 0, CUBLAS_COMPUTE_32F 68, default algorithm -1
    return gemm_(handle_, 1, 0, n, n, n, &one, a, 14, n, b, 14, n, &zero, c, 0, n, 68, -1) == 0;
#else  // transposed 112, plain 111; bf16_r 168, f32_r 151, standard algorithm 0
    return gemm_(handle_, 112, 111, n, n, n, &one, a, 168, n, b, 168, n, &zero, c, 151, n, c, 151, n, 151, 0, 0, 0) ==
           0;
#endif
  }

 private:
#if FP4_GPU_CUDA
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                       const void*, void*, int, int, int, int);
#else
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                       const void*, const void*, int, int, void*, int, int, int, int, int32_t, uint32_t);
#endif
  void* library_ = nullptr;
  void* handle_ = nullptr;
  Gemm gemm_ = nullptr;
};

// Of either sign, from 1/8 to below 2: with equal numbers a device draws less power and multiplies faster.
std::vector<uint16_t> random_bf16(int64_t count) {
  std::vector<uint16_t> values(static_cast<size_t>(count));
  uint32_t state = 1;
  for (uint16_t& value : values) {
    state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator; its high bits are the random ones
    value = static_cast<uint16_t>(((state >> 16) & 0x81FFu) | 0x3E00u);
  }
  return values;
}

class RuntimeDevice : public Device {
 public:
  // What a device has proven, on another stream.
  RuntimeDevice(const RuntimeDevice& proven, void* stream) : RuntimeDevice(proven) {
    stream_ = stream == nullptr ? framework_default : static_cast<gpuStream_t>(stream);
  }
  explicit RuntimeDevice(int index) : index_(index) {
    gpuDeviceProp properties = {};
    take();
    check(gpuGetDeviceProperties(&properties, index_), "asking for the device's properties");
    name_ = properties.name;
#if FP4_GPU_CUDA
    has_unit_ = properties.major >= 8;
    name_ += " (sm_" + std::to_string(10 * properties.major + properties.minor) + ")";
#else
    name_ += std::string(" (") + properties.gcnArchName + ")";
    for (const char* arch : {"gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"}) {
      has_unit_ = has_unit_ || std::string(properties.gcnArchName).rfind(arch, 0) == 0;
    }
#endif
    Pool pool(*this);
    has_unit_ = has_unit_ && probe_matrix_unit(pool, own_unit);
    has_native_ = probe_native(pool);
  }
  // "NVIDIA H200 (sm_90): bf16 matrix unit"
  std::string description() const override {
    const std::string text = name_ + ": " + (has_unit_ ? "bf16 matrix unit" : "no matrix unit");
    return has_native_ ? text + ", native e2m1 conversion" : text;
  }
  MatrixKind matrix_unit() const override { return has_unit_ ? own_unit : MatrixKind::none; }
  int64_t largest_launch() const override { return device_largest_launch; }
  bool has_native_conversion() const override { return has_native_; }

  void* allocate(std::size_t bytes) override {
    take();
    void* memory = nullptr;
    if (gpuMalloc(&memory, bytes) == gpuSuccess) return memory;
    static_cast<void>(gpuGetLastError());  // reading it clears it; the pool reports the failure
    return nullptr;
  }
  void release(void* memory) override { static_cast<void>(gpuFree(memory)); }  // at exit the runtime may be gone
  void upload(void* to, const void* from, std::size_t bytes) override {
    move(to, from, bytes, gpuMemcpyHostToDevice, "copying to the device");
    synchronise();
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    move(to, from, bytes, gpuMemcpyDeviceToHost, "copying from the device");
    synchronise();
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    move(to, from, bytes, gpuMemcpyDeviceToDevice, "copying inside the device");
  }
  double vendor_bf16_gemm(int64_t n, int repeats) override {
    take();
    const VendorGemm vendor;
    if (!vendor.is_here()) return 0;
    Pool pool(*this);
    Buffer<uint16_t> a(pool, n * n);
    Buffer<uint16_t> b(pool, n * n);
    Buffer<float> c(pool, n * n);
    const std::vector<uint16_t> values = random_bf16(2 * n * n);
    a.upload(values.data());
    b.upload(values.data() + n * n);
    std::vector<float> milliseconds;
    for (int i = 0; i <= repeats; ++i) {
      gpuEvent_t begin = nullptr;
      gpuEvent_t end = nullptr;
      check(gpuEventCreate(&begin), "making an event");
      check(gpuEventCreate(&end), "making an event");
      check(gpuEventRecord(begin, nullptr), "recording an event");
      if (!vendor.multiply(static_cast<int>(n), a.data(), b.data(), c.data())) return 0;
      check(gpuEventRecord(end, nullptr), "recording an event");
      check(gpuEventSynchronize(end), "waiting for an event");
      float elapsed = 0;
      check(gpuEventElapsedTime(&elapsed, begin, end), "reading an event");
      if (i > 0) milliseconds.push_back(elapsed);  // the first one warms up
      check(gpuEventDestroy(begin), "giving back an event");
      check(gpuEventDestroy(end), "giving back an event");
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    return 1e-3 * static_cast<double>(milliseconds[milliseconds.size() / 2]);
  }
  void synchronise() override {
    take();
    check(gpuStreamSynchronize(stream_), "waiting for the device");
  }

#define FP4_GPU_RUN(Kernel)                                               \
  void run(const Kernel& kernel, int64_t first, int64_t count) override { \
    take();                                                               \
    start(kernel, first, count, #Kernel);                                 \
  }
  FP4_GPU_KERNELS(FP4_GPU_RUN)
#undef FP4_GPU_RUN

 private:
  template <class Kernel>
  void start(const Kernel& kernel, int64_t first, int64_t count, const char* name) const {
    if constexpr (vendor_of<Kernel> != MatrixKind::none && vendor_of<Kernel> != own_unit) {
      throw Error(std::string("gpu: kernel ") + name + " belongs to another vendor's device", Error::failed);
    } else {
      constexpr unsigned bytes = shared_bytes<Kernel>;
      entry<Kernel><<<static_cast<unsigned>(count), group_threads, bytes, stream_>>>(kernel, first);
      check(gpuGetLastError(), name);
    }
  }
  // The runtimes keep the device of each host thread; a new thread begins with device 0.
  void take() const { check(gpuSetDevice(index_), "taking the device"); }
  void move(void* to, const void* from, std::size_t bytes, gpuMemcpyKind kind, const char* what) const {
    take();
    if (bytes != 0) check(gpuMemcpyAsync(to, from, bytes, kind, stream_), what);
  }

  int index_;
  gpuStream_t stream_ = nullptr;
  std::string name_;
  bool has_unit_ = false;
  bool has_native_ = false;
};

class LentDevice final : public RuntimeDevice {
 public:
  LentDevice(const RuntimeDevice& proven, const Lender& lender)
      : RuntimeDevice(proven, lender.stream), lender_(lender) {}
  void* allocate(std::size_t bytes) override { return lender_.take(bytes, lender_.of); }
  void release(void* memory) override { lender_.give(memory, lender_.of); }
  const Clock* clock() const override { return lender_.clock; }

 private:
  Lender lender_;
};

struct Found {
  Device* device = nullptr;
  std::string reason;  // why there is none
};

// A device that is there but does not work (another architecture than this build's, a broken driver) is no device: the
// program goes on without it.
Found find_device() {
  int count = 0;  // CUDA leaves it untouched on errors
  const gpuError_t error = gpuGetDeviceCount(&count);
  if (error != gpuSuccess) {
    static_cast<void>(gpuGetLastError());
    return {nullptr, std::string("no device: ") + gpuGetErrorString(error)};
  }
  if (count == 0) return {nullptr, "no device"};
  try {
    // Lives as long as the process: pools give memory back at exit.
    return {new RuntimeDevice(device_of_rank(count)), ""};
  } catch (const Error& e) {
    return {nullptr, std::string("no device that works: ") + e.what()};
  }
}

// Looked for once: a process does not change its devices.
const Found& found() {
  static const Found result = find_device();
  return result;
}

}  // namespace

Device* this_device() { return found().device; }
std::string no_device_reason() { return found().reason; }

std::unique_ptr<Device> make_lent_device(const Lender& lender) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<RuntimeDevice>>& proven = *new std::vector<std::unique_ptr<RuntimeDevice>>;
  const std::lock_guard lock(mutex);
  const auto number = static_cast<size_t>(lender.device);
  if (number >= proven.size()) proven.resize(number + 1);
  std::unique_ptr<RuntimeDevice>& device = proven[number];
  if (device == nullptr) device = std::make_unique<RuntimeDevice>(lender.device);
  return std::make_unique<LentDevice>(*device, lender);
}

}  // namespace fp4::gpu
