// What every device must get right, whichever it is: the functions compare a device with the reference backend, bit for
// bit, on boundary-dense inputs (src/golden/inputs.h). test_gpu_bodies.cpp runs them on host loops (label quick),
// test_gpu_device.cpp on the GPU of this machine (label gpu).
#pragma once

#include <string>
#include <vector>

#include "src/golden/inputs.h"
#include "src/gpu/device.h"
#include "tests/support/same_floats.h"

namespace fp4::test {

using golden::InputKind;

inline constexpr RandomPlace place = {5, 3, 2};

struct Shape {
  int64_t rows, cols;
};

void compare_roundings(gpu::Device& device);
void compare_scale_rules(gpu::Device& device);
void compare_formats(gpu::Device& device);
void compare_hadamards(gpu::Device& device);
void compare_both_ways(gpu::Device& device);
void compare_runs(gpu::Device& device);
void compare_ordered_products(gpu::Device& device);
void compare_accumulators(gpu::Device& device);
void compare_wide_products(gpu::Device& device);
void compare_block_products(gpu::Device& device);
void compare_extreme_products(gpu::Device& device);
void compare_zero_scales(gpu::Device& device);
void compare_bit_comparison(gpu::Device& device);

}  // namespace fp4::test
