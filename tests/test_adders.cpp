// Does `gemm --hardware` take the adder that a chip has, and refuse operands that the chip does not multiply?
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "fp4/accumulator.h"
#include "src/arith/spec_text.h"
#include "src/files/tensor_writer.h"
#include "src/text/error.h"
#include "sweeps/cost/hardware.h"
#include "tests/support/support.h"

using namespace fp4;
using namespace fp4::cost;
using namespace fp4::test;
using Catch::Contains;

namespace {

std::string row_for(const char* chip, const char* a, const char* b) {
  return adder_of(load_hardware(chip), quant_spec_from_words(a), quant_spec_from_words(b));
}

std::string refusal(const char* chip, const char* a, const char* b) {
  try {
    return "none: " + row_for(chip, a, b);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("operands find the adder of their instruction", "[quick]") {
  CHECK(row_for("b200", "nvfp4", "nvfp4,scale_rule=four_over_six") == "b200_nvf4");
  CHECK(row_for("b200", "mxfp4", "mxfp4,block=16") == "b200_mxf4");
  CHECK(row_for("b200", "mxfp4,block=32x32", "mxfp4") == "b200_mxf4");
  CHECK(row_for("b200", "mxfp4", "mxfp8") == "b200_f8f6f4");  // kind mxf8f6f4
  CHECK(row_for("b200", "mxfp4,scale=none", "mxfp4,scale=none") == "b200_f8f6f4");
  CHECK(row_for("b200", "bf16", "bf16") == "b200_16bit");
  CHECK(row_for("b200", "bf16", "fp32") == "b200_tf32");
  CHECK(row_for("h200", "mxfp8,scale=none", "mxfp8,scale=none") == "hopper_fp8");
  CHECK(row_for("a100", "fp16", "fp16") == "ampere_16bit");
  CHECK(row_for("mi355x", "mxfp4", "mxfp6") == "cdna4_isa");
}

TEST_CASE("operands that a chip does not multiply, and adders that nobody knows, are refused", "[quick]") {
  CHECK_THAT(refusal("b200", "nvfp4", "mxfp4"), Contains("one format"));
  CHECK_THAT(refusal("b200", "mxfp4,block=8", "mxfp4"), Contains("no fp4 operands with e8m0 scales of 8 elements"));
  CHECK_THAT(refusal("b200", "ue5m3fp4", "ue5m3fp4"), Contains("ue5m3"));
  CHECK_THAT(refusal("b200", "mxfp4,element=e3m0", "mxfp4"), Contains("no such elements"));
  CHECK_THAT(refusal("b200", "nvint4", "nvint4"), Contains("no such elements"));
  CHECK_THAT(refusal("b200", "if4", "if4"), Contains("no such elements"));
  CHECK_THAT(refusal("h100", "mxfp8", "mxfp8"), Contains("no fp8 operands"));
  CHECK_THAT(refusal("h100", "nvfp4", "nvfp4"), Contains("hardware profile h100") && Contains("--accumulator"));
  CHECK_THAT(refusal("mi355x", "nvfp4", "nvfp4"), Contains("no fp4 operands with ue4m3 scales of 16 elements"));
  CHECK_THAT(refusal("mi355x", "bf16", "bf16"), Contains("adders.16bit"));
  CHECK_THAT(refusal("vr200", "nvfp4", "nvfp4"), Contains("adders.nvfp4"));
  CHECK_THAT(refusal("b20", "nvfp4", "nvfp4"), Contains("b200"));
}

TEST_CASE("an adder of a profile is a row, and a measured one is measured", "[quick]") {
  for (const std::string& chip : hardware_names()) {
    for (const auto& [operands, found] : load_hardware(chip).adders) {
      INFO(chip << " " << operands);
      CHECK(found.kind != "given");
      CHECK(found.source.size() > 10);
      const auto* row = find_row(accumulator_table, std::string_view(found.value));
      REQUIRE(row != nullptr);
      if (found.kind == "measured") CHECK(row->evidence == fp4::Evidence::measured);
      if (found.kind == "stated") CHECK(row->evidence == fp4::Evidence::documented);
    }
  }
}

TEST_CASE("a profile that is printed keeps its adders", "[quick]") {
  const Hardware chip = load_hardware("b200"), again = parse_hardware(to_json(chip), "b200");
  REQUIRE(again.adders.size() == 5);
  for (const auto& [operands, adder] : chip.adders) {
    CHECK(again.adders.at(operands).value == adder.value);
    CHECK(again.adders.at(operands).source == adder.source);
  }
}

TEST_CASE("faults of a profile's adders are named", "[quick]") {
  const auto error = [](const char* adders) -> std::string {
    Json json = Json::parse(R"({"name": "toy", "rates": {"bf16": 2048}, "efficiency": 0.5, "issue_per_s": 65536,
      "issue_efficiency": 0.5, "memory_bandwidth": 8192, "memory_bytes": 1, "random_source": "philox"})");
    json["adders"] = Json::parse(adders);
    try {
      parse_hardware(json, "chip");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(error(R"({"16bit": "hopper_16bit"})").empty());
  CHECK_THAT(error(R"({"fp4": "b200_nvf4"})"), Contains("unknown word 'fp4'") && Contains("nvfp4"));
  CHECK_THAT(error(R"({"nvfp4": "b200_nvfp4"})"), Contains("unknown word 'b200_nvfp4'") && Contains("adders.nvfp4"));
  CHECK_THAT(error(R"({"nvfp4": {"value": "b200_nvf4", "kind": "measured"}})"), Contains("source"));
  CHECK_THAT(error(R"({"nvfp4": {"value": "b200_nvf4", "kind": "sure", "source": "s"}})"), Contains("'sure'"));
}

TEST_CASE("gemm --hardware multiplies by the adder of the chip", "[cli]") {
  const TemporaryFolder folder;
  const std::string a = folder / "a.npy", by_chip = folder / "chip.npy", by_row = folder / "row.npy";
  std::mt19937 rng(3);
  std::vector<float> x(8 * 512);
  for (float& v : x) v = std::ldexp(static_cast<float>(rng() % 2001) - 1000.0f, static_cast<int>(rng() % 24) - 12);
  TensorWriter writer(a, Dtype::f32, {8, 512});
  writer.write(x);
  writer.commit();
  const std::string operands = "gemm " + a + " " + a + " --spec nvfp4 --out ";
  REQUIRE(run_cli(operands + by_chip + " --hardware b200").exit_code == 0);
  REQUIRE(run_cli(operands + by_row + " --accumulator b200_nvf4").exit_code == 0);
  CHECK(read_text(by_chip) == read_text(by_row));
  REQUIRE(run_cli(operands + by_row + " --force").exit_code == 0);
  CHECK(read_text(by_chip) != read_text(by_row));
  CHECK(run_cli(operands + by_row + " --force --hardware b200 --accumulator exact").exit_code == 2);
  const RunResult refused = run_cli(operands + by_row + " --force --hardware mi355x");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("mi355x") && Contains("ue4m3"));
}
