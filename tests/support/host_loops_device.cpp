// The device of fp4sim_on_host_loops, the whole program of tests/test_gpu_program.cpp. It names itself wherever a
// device would be named.
#include "tests/support/guarded_device.h"

namespace fp4::gpu {

Device* this_device() {
  static test::GuardedDevice& device = *new test::GuardedDevice;  // lives as long as the process, as a device does
  return &device;
}
std::string no_device_reason() { return ""; }

}  // namespace fp4::gpu
