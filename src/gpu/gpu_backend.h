// The backend `gpu`: host data in, kernels of pipeline.h, host data out. Built on this_device() in a build with
// FP4_GPU=cuda or hip, and on HostDevice by the tests.
#pragma once

#include <memory>
#include <string>

#include "fp4/backend.h"
#include "src/gpu/device.h"

namespace fp4::gpu {

class ResidentBackend : public Backend {
 public:
  // multiply(), which adds `bias` [columns of C] to each row; null: none. No backend for host data can be asked for it.
  virtual bool multiply_with_bias(const MultiplyCall& call, const float* bias) const = 0;
};

// A backend over a device, which must outlive it; nullptr gives one that is not available().
std::unique_ptr<Backend> make_backend(Device* device);
// The same where every matrix of floats that a call names, operand or result, lies in the memory of the pool's device:
// codes stay there, too, while the pool lives (Quantized::resident). For one thread.
std::unique_ptr<ResidentBackend> make_resident_backend(Pool& pool);
// Brings the arrays of an operand to the host, where they lie on the device.
void fetch(Quantized& q);

}  // namespace fp4::gpu

namespace fp4 {

const Backend& gpu_backend();
// Whether anybody has asked for the device of this process: that starts the vendor's runtime.
bool gpu_was_asked();
// One line for people: the device, or why there is none ("this build has no GPU backend", "no device: ...").
std::string gpu_status();

}  // namespace fp4
