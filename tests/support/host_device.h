// A device made of host loops: the same kernel bodies, groups one after another, phases in order. Tests use it to prove
// the kernels and the pipeline where there is no GPU. It fills memory with a pattern, so that a kernel that forgets to
// write is seen, and takes few groups per launch, so that every launch is one of several.
#pragma once

#include <cstdlib>
#include <cstring>

#include "src/gpu/device.h"

namespace fp4::gpu {

// Memory of the host as a device's, for those who run kernels on it.
class HostMemory : public Device {
 public:
  explicit HostMemory(MatrixKind unit, int64_t largest_launch) : unit_(unit), largest_launch_(largest_launch) {}

  MatrixKind matrix_unit() const override { return unit_; }
  int64_t largest_launch() const override { return largest_launch_; }
  void* allocate(std::size_t bytes) override {
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory != nullptr) std::memset(memory, 0xA5, bytes);
    return memory;
  }
  void release(void* memory) override { std::free(memory); }
  void upload(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  void synchronise() override {}

 private:
  MatrixKind unit_;
  int64_t largest_launch_;
};

class HostDevice final : public HostMemory {
 public:
  explicit HostDevice(MatrixKind unit, int64_t largest_launch = 3) : HostMemory(unit, largest_launch) {}

  std::string description() const override { return "host loops"; }

#define FP4_GPU_RUN(Kernel) \
  void run(const Kernel& kernel, int64_t first, int64_t count) override { loop(kernel, first, count); }
  FP4_GPU_KERNELS(FP4_GPU_RUN)
#undef FP4_GPU_RUN

 private:
  template <class Kernel>
  static void loop(const Kernel& kernel, int64_t first, int64_t count) {
    std::vector<FourWords> shared((Kernel::shared_words + 3) / 4);
    for (int64_t group = first; group < first + count; ++group) {
      std::memset(static_cast<void*>(shared.data()), 0xA5, shared.size() * sizeof(FourWords));
      kernel(Group{}, group, shared.data()->v);
    }
  }
};

}  // namespace fp4::gpu
