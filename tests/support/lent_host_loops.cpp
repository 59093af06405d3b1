// Host loops in the place of a lent device, for the Python library of the tests (fp4_python_on_host_loops): what an
// H200 would run, kernel by kernel, in the host's memory. It counts what a device would do.
#include "tests/support/host_device.h"

namespace fp4::gpu {

namespace {

struct Counts {
  int64_t launches = 0, moved = 0, taken = 0;  // moved: copies between host and device
} counts;

class LentHost final : public HostMemory {
 public:
  explicit LentHost(const Clock* clock)
      : HostMemory(MatrixKind::nvidia, 1 << 20), loops_(MatrixKind::nvidia, 1 << 20), clock_(clock) {}
  std::string description() const override { return "host loops in the place of a lent device"; }
  void* allocate(std::size_t bytes) override {
    ++counts.taken;
    return HostMemory::allocate(bytes);
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    ++counts.moved;
    copy(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    ++counts.moved;
    copy(to, from, bytes);
  }
#define FP4_GPU_RUN(Kernel)                                               \
  void run(const Kernel& kernel, int64_t first, int64_t count) override { \
    ++counts.launches;                                                    \
    loops_.run(kernel, first, count);                                     \
  }
  FP4_GPU_KERNELS(FP4_GPU_RUN)
#undef FP4_GPU_RUN

  const Clock* clock() const override { return clock_; }

 private:
  HostDevice loops_;
  const Clock* clock_;
};

}  // namespace

Device* this_device() { return nullptr; }
std::string no_device_reason() { return "host loops are lent, call by call"; }
std::unique_ptr<Device> make_lent_device(const Lender& lender) { return std::make_unique<LentHost>(lender.clock); }

}  // namespace fp4::gpu

// Launches, copies between host and device, and allocations since the last call.
extern "C" __attribute__((visibility("default"))) void fp4d_counts(int64_t* out) {
  out[0] = fp4::gpu::counts.launches, out[1] = fp4::gpu::counts.moved, out[2] = fp4::gpu::counts.taken;
  fp4::gpu::counts = {};
}
