// Decides: the profile of this machine. Not a chip that runs FP4 but the simulator on a CPU: its "rates" are those at
// which products of each format are simulated, so that the toy models have a machine on which their step times mean
// something. Everything here is measured; nothing of it enters a digest.
#pragma once

#include <string>

#include "sweeps/cost/hardware.h"

namespace fp4::cost {

struct CalibrateOptions {
  double seconds = 0.5;  // spent on each figure
  int64_t size = 512;    // of the square products
  int threads = 1;
  std::string backend = "auto";
};

Hardware calibrate_host(const CalibrateOptions& options);

/// The CPU's own name, or "unknown CPU".
std::string cpu_name();

}  // namespace fp4::cost
