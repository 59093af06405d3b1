// The kernels on the GPU of this machine, in builds with FP4_GPU=cuda or hip (ctest -L gpu); where there is no device
// every test says so and ctest counts it as skipped. The same comparisons run on host loops in test_gpu_bodies.cpp.
#include <catch2/catch.hpp>
#include <iostream>

#include "src/gpu/gpu_backend.h"
#include "src/gpu/pipeline.h"
#include "tasks/run.h"
#include "tests/support/gpu_cases.h"
#include "tools/bench/device_rates.h"

namespace fp4 {
namespace {

// nullptr, said aloud, where there is none.
gpu::Device* device_or_skip() {
  gpu::Device* device = gpu::this_device();
  std::cout << (device != nullptr ? "" : "[test skipped] ") << "gpu: " << gpu_status() << std::endl;
  return device;
}

TEST_CASE("device: quantisers", "[gpu]") {
  gpu::Device* device = device_or_skip();
  if (device == nullptr) return;
  SECTION("every rounding") { test::compare_roundings(*device); }
  SECTION("every scale rule and order of operations") { test::compare_scale_rules(*device); }
  SECTION("formats, blocks, policies, presets") { test::compare_formats(*device); }
  SECTION("Hadamards, transposes, bands, smooth maxima") { test::compare_hadamards(*device); }
  SECTION("row and column copies in one pass") { test::compare_both_ways(*device); }
  SECTION("whole runs of 32") { test::compare_runs(*device); }
}

TEST_CASE("device: products", "[gpu]") {
  gpu::Device* device = device_or_skip();
  if (device == nullptr) return;
  SECTION("every accumulator") { test::compare_accumulators(*device); }
  SECTION("accumulators in 64-bit integers") { test::compare_wide_products(*device); }
  SECTION("sums in ascending k") { test::compare_ordered_products(*device); }
  SECTION("fp32_block on the matrix units") { test::compare_block_products(*device); }
  SECTION("the largest integers of a block") { test::compare_extreme_products(*device); }
  SECTION("scales of zero") { test::compare_zero_scales(*device); }
  SECTION("bit comparison") { test::compare_bit_comparison(*device); }
}

// A chip whose matrix units are known by name must also pass the probe: falling back to plain arithmetic would hide a
// wrong fragment layout behind right bits.
TEST_CASE("device: its matrix unit passes the probe", "[gpu]") {
  gpu::Device* device = device_or_skip();
  if (device == nullptr) return;
  CHECK(device->matrix_unit() != gpu::MatrixKind::none);
}

// More groups than one launch of the host loops ever has, more than one MiB, reused memory. quartet has slopes, so that
// only its products are the device's; the others train in its memory.
TEST_CASE("device: a training run has the digest of the CPU's", "[gpu]") {
  if (device_or_skip() == nullptr) return;
  for (const char* task : {"regression", "classifier", "diffusion", "lm"}) {
    for (const char* recipe : {"mxfp4", "nvfp4", "nvfp4_te", "mxfp8", "quartet", "tetrajet", "fp32"}) {
      sim::Json parts = {
          {"task", {{"name", task}}}, {"recipe", recipe}, {"train", {{"steps", 20}, {"curve_points", 2}}}};
      if (task == std::string_view("lm"))
        parts["task"].update({{"width", 64}, {"layers", 1}, {"heads", 2}, {"ffn", 96}});
      const sim::Json config = tasks::canonical(parts);
      sim::RunOptions on_device;
      on_device.backend = "gpu";
      const sim::History h = tasks::run(config, 1, on_device);
      INFO(task << " " << recipe << ": " << h.placement);
      CHECK(h.digest == tasks::run(config, 1).digest);
      CHECK((h.placement == "all") == (recipe != std::string_view("quartet")));
    }
  }
}

TEST_CASE("device: the benchmark's kernels equal the reference", "[gpu]") {
  if (device_or_skip() == nullptr) return;
  for (const gpu::Measurement& row : gpu::bench({1024, 1024, {1024}, 256, 3})) {
    INFO(row.what);
    CHECK(row.is_equal);
  }
}

}  // namespace
}  // namespace fp4
