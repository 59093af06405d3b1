// The device of a build without one. By itself in this file, so that a program of the tests can be linked with host
// loops for a device (tests/support/host_loops_device.cpp): the program that users get has no such switch.
#include "src/gpu/device.h"
#include "src/text/error.h"

#if !FP4_WITH_GPU
namespace fp4::gpu {

Device* this_device() { return nullptr; }
std::string no_device_reason() { return "this build has no GPU backend (configure with -DFP4_GPU=cuda or hip)"; }
std::unique_ptr<Device> make_lent_device(const Lender&) { throw Error("gpu: " + no_device_reason(), Error::failed); }

}  // namespace fp4::gpu
#endif
