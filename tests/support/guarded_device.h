// Host loops for a device, in memory that the host may not touch between them: a loop of the host that reads or writes
// it ends the program. One call at a time, from any thread, as a device's own queue does them.
#pragma once

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <vector>

#include "tests/support/host_device.h"

namespace fp4::test {

class GuardedDevice final : public gpu::HostMemory {
 public:
  GuardedDevice() : HostMemory(gpu::MatrixKind::none, 1 << 20), loops_(gpu::MatrixKind::none, 1 << 20) {
    void* const memory = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(memory);
  }
  ~GuardedDevice() override { munmap(base_, room); }
  std::string description() const override { return "host loops in the place of a device"; }
  void* allocate(std::size_t bytes) override {
    const Open open(*this);
    const std::size_t pages = (bytes + page - 1) / page * page;
    std::vector<void*>& freed = freed_[pages];
    void* memory = base_ + used_;
    if (!freed.empty()) {
      memory = freed.back();
      freed.pop_back();
    } else if (used_ + pages <= room) {
      used_ += pages;
      protect(PROT_READ | PROT_WRITE);
    } else {
      return nullptr;
    }
    sizes_[memory] = pages;
    std::memset(memory, 0xA5, pages);
    return memory;
  }
  void release(void* memory) override {
    const std::lock_guard lock(one_at_a_time_);
    freed_[sizes_.at(memory)].push_back(memory);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    const Open open(*this);
    HostMemory::copy(to, from, bytes);
  }
  int64_t launches() const { return launches_; }

#define FP4_GPU_RUN(Kernel)                                                    \
  void run(const gpu::Kernel& kernel, int64_t first, int64_t count) override { \
    const Open open(*this);                                                    \
    loops_.run(kernel, first, count);                                          \
    ++launches_;                                                               \
  }
  FP4_GPU_KERNELS(FP4_GPU_RUN)
#undef FP4_GPU_RUN

 private:
  // Memory is open while a kernel or a move runs.
  struct Open {
    explicit Open(const GuardedDevice& device) : device(device), lock(device.one_at_a_time_) {
      device.protect(PROT_READ | PROT_WRITE);
    }
    ~Open() { device.protect(PROT_NONE); }
    const GuardedDevice& device;
    std::lock_guard<std::mutex> lock;
  };
  void protect(int how) const {
    if (used_ > 0) mprotect(base_, used_, how);
  }
  static constexpr std::size_t room = std::size_t{1} << 32, page = 4096;
  mutable std::mutex one_at_a_time_;
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
  std::map<std::size_t, std::vector<void*>> freed_;
  std::map<void*, std::size_t> sizes_;
  gpu::HostDevice loops_;
  int64_t launches_ = 0;
};

}  // namespace fp4::test
