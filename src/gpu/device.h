// What the GPU backend needs of a device: memory, copies, and the kernels of device_kernels.h. backend_gpu.cu gives it
// over CUDA or HIP, host_device.h by loops on the host, so that everything above this line runs under the tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/gpu/device_kernels.h"

namespace fp4::gpu {

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string description() const = 0;
  virtual MatrixKind matrix_unit() const = 0;  // none where probe_matrix_unit() did not prove it
  virtual int64_t largest_launch() const = 0;  // groups that one launch may have
  // Whether the device's own e2m1 conversion was compiled in and agreed with ours when it was asked (probe_native).
  virtual bool has_native_conversion() const { return false; }

  // Seconds of an n x n x n product by the vendor's library (bf16 operands, fp32 sums): the yardstick of the benchmark.
  // 0 where the library is not installed.
  virtual double vendor_bf16_gemm(int64_t n, int repeats) {
    static_cast<void>(n);
    static_cast<void>(repeats);
    return 0;
  }

  // nullptr when the memory is not there.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;  // inside the device
  virtual void synchronise() = 0;
  // Where kernels read seed and step of their random draws; null: in their arguments.
  virtual const Clock* clock() const { return nullptr; }

  // Groups first .. first+count-1 of a kernel; waits for nothing, throws for a launch that fails.
#define FP4_GPU_DECLARE(Kernel) virtual void run(const Kernel& kernel, int64_t first, int64_t count) = 0;
  FP4_GPU_KERNELS(FP4_GPU_DECLARE)
#undef FP4_GPU_DECLARE
};

// The device of this build and machine, or nullptr; no_device_reason() then says why, in one line.
Device* this_device();
std::string no_device_reason();

// Of one call: memory of a framework's allocator, which knows the call's stream, and the stream itself.
struct Lender {
  void* (*take)(std::size_t bytes, void* of) = nullptr;  // null where there is none; without these the device's own
  void (*give)(void* memory, void* of) = nullptr;
  void* of = nullptr;
  void* stream = nullptr;
  const Clock* clock = nullptr;  // Device::clock()
  int device = 0;
};
// A device of this build for the length of a call, with nothing of its own: it takes memory from the lender and starts
// kernels on its stream. Error where there is none.
std::unique_ptr<Device> make_lent_device(const Lender& lender);

// Which of `count` devices this process takes: ranks on one machine take one each, in turn where there are more ranks.
// The number of the rank on its machine is what launchers set: Open MPI, Hydra (MPICH, Intel MPI), Slurm, torchrun; 0
// without it.
int device_of_rank(int count);

// Groups for that many threads.
inline int64_t groups_for(int64_t threads) { return (threads + group_threads - 1) / group_threads; }

// A kernel over any number of groups, in launches that the device can take.
template <class Kernel>
void launch(Device& device, const Kernel& kernel, int64_t groups) {
  const int64_t most = device.largest_launch();
  for (int64_t first = 0; first < groups; first += most) {
    device.run(kernel, first, groups - first < most ? groups - first : most);
  }
}

// Kernels of one kind for some operands, in one launch.
template <class Kernel>
class Joint {
 public:
  void add(const Kernel& kernel, int64_t groups) {
    several_.first[several_.count] = groups_;
    several_.of[several_.count++] = kernel;
    groups_ += groups;
  }
  void launch(Device& device) const {
    if (groups_ != 0) gpu::launch(device, several_, groups_);
  }

 private:
  Several<Kernel> several_;
  int64_t groups_ = 0;
};

// Freed blocks are kept by size (rounded up to a power of two) and used again: a training step allocates nothing after
// the first. Not for several threads at once.
class Pool {
 public:
  explicit Pool(Device& device) : device_(device) {}
  ~Pool() { trim(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Device& device() const { return device_; }
  std::pair<void*, std::size_t> take(std::size_t bytes);  // throws Error when the device has no more
  void give(void* memory, std::size_t bytes) { free_[bytes].push_back(memory); }
  void trim();
  std::size_t allocations() const { return allocations_; }  // asked of the device so far

  // Matrices of callers are fp32, but for those in this list.
  std::vector<const void*> bf16;
  template <class T>
  Floats<T> floats(T* data) const {
    return {data, std::find(bf16.begin(), bf16.end(), data) != bf16.end()};
  }

 private:
  Device& device_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::size_t allocations_ = 0;
};

// A typed array in device memory.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(Pool& pool, int64_t count) : pool_(&pool), count_(count) {
    const auto [memory, bytes] = pool.take(static_cast<std::size_t>(count) * sizeof(T));
    data_ = static_cast<T*>(memory);
    bytes_ = bytes;
  }
  // Memory of somebody else, who keeps it as long.
  Buffer(T* data, int64_t count) : data_(data), count_(count) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (pool_ != nullptr) pool_->give(data_, bytes_);
  }

  T* data() const { return data_; }
  int64_t count() const { return count_; }
  std::size_t size() const { return static_cast<std::size_t>(count_); }
  void upload(const T* from) { pool_->device().upload(data_, from, static_cast<std::size_t>(count_) * sizeof(T)); }
  void download(T* to) const { pool_->device().download(to, data_, static_cast<std::size_t>(count_) * sizeof(T)); }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(bytes_, other.bytes_);
  }
  Pool* pool_ = nullptr;
  T* data_ = nullptr;
  int64_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace fp4::gpu
