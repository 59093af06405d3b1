// Decides: a training that lives on a device. Its weights, moments, values and gradients lie in the device's memory and
// its loops are kernels (device::table in train_kernels.h), so that a step moves the batch there and four numbers back:
// the loss, the norm of the gradient and whether gradients and weights are finite. Every order of summation is the
// CPU's and so is every bit. What it cannot do trains as before, products on the device and the rest on the CPU, with
// the same bits (History::placement says which and why).
#pragma once

#include <memory>

#include "src/gpu/gpu_backend.h"

namespace fp4::sim {

/// While one lives, device::table of this thread works on its device. Arenas that took memory there go before it.
class DeviceScope {
 public:
  explicit DeviceScope(gpu::Device& device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  /// Quantises and multiplies in the device's memory.
  const gpu::ResidentBackend& backend() const { return *resident_; }
  gpu::Pool& pool() { return pool_; }

 private:
  gpu::Pool pool_;
  std::unique_ptr<gpu::ResidentBackend> resident_;
  gpu::Pool* before_;
};

}  // namespace fp4::sim
