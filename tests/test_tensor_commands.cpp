// The tensor commands with the real binary: files judged by numpy (tensor_commands.py), bits by the oracle, and the
// independence of how a tensor is cut into bands.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "src/spec_text.h"
#include "src/tensor_file/tensor_writer.h"
#include "tests/support/support.h"
#include "tools/cli/quantize_files.h"

using fp4::test::fp4sim_path;
using fp4::test::read_text;
using fp4::test::run_shell;

namespace {

std::string python() {
  const char* given = std::getenv("FP4SIM_PYTHON");
  return given != nullptr ? given : "/usr/bin/python3";
}

}  // namespace

TEST_CASE("numpy agrees with files, shapes, worked examples and refusals", "[cli]") {
  const auto result = run_shell(python() + " tests/tensor_commands.py '" + fp4sim_path() + "'");
  INFO(result.out + result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("the oracle agrees with the binary in every bit", "[cli]") {
  const auto result = run_shell(python() + " tools/scripts/oracle.py check '" + fp4sim_path() + "' --cases 60 --seed 20261120");
  INFO(result.out + result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("how a tensor is cut into bands changes no file", "[quick]") {
  const fp4::test::TemporaryFolder folder;
  constexpr std::size_t rows = 75, cols = 50;
  std::vector<float> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = fp4::random_uniform({9, 1, 0}, i) * 10.0f - 5.0f;
  fp4::save_tensor(folder / "x.npy", fp4::Dtype::f32, {rows, cols}, x.data());
  for (const char* words :
       {"nvfp4,rounding=stochastic,scale_rounding=stochastic", "mxfp4,block=32x32,rounding=stochastic",
        "nvfp4,tensor_scale=outer128", "mxfp4,block=tensor", "nvfp4,block=16x16", "bf16"}) {
    INFO(words);
    fp4::tools::QuantizeJob job;
    job.in = folder / "x.npy";
    job.spec = fp4::quant_spec_from_words(words);
    job.place = {3, 32, 7};
    job.force = true;
    job.out = folder / "whole";
    const auto whole = fp4::tools::quantize_to_folder(job);
    job.out = folder / "bands";
    job.band_bytes = 1;  // one block of rows at a time
    job.threads = 2;
    const auto bands = fp4::tools::quantize_to_folder(job);
    CHECK(whole.nmse() == bands.nmse());
    CHECK(whole.clipped == bands.clipped);
    for (const char* name : {"codes.npy", "tensor_scale.npy", "dequantized.npy", "scales.npy"}) {
      if (!job.spec.has_scale() && std::string_view(name) == "scales.npy") continue;
      INFO(name);
      CHECK(read_text(folder / "whole/" + name) == read_text(folder / "bands/" + name));
    }
  }
}
