// What scripts read from `fp4sim bench --json`: every row names its yardstick, which ran in the same race. No times.
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/support.h"

using fp4::test::run_cli;

TEST_CASE("every kind of benchmark fills the rows that scripts rely on", "[cli]") {
  const auto result = run_cli(
      "bench gemm quantize hadamard train --sizes 64 --elements 65536 --rounds 1 --steps 10 --models mlp-128 "
      "--recipes mxfp4 --json");
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const auto rows = nlohmann::json::parse(result.out).at("rows");
  std::set<std::string> baselines, benches;
  for (const auto& row : rows) {
    INFO(row.dump());
    for (const char* key : {"bench", "backend", "size", "unit", "baseline"}) CHECK(row.at(key).is_string());
    for (const char* key : {"threads", "seconds", "rate", "ratio"}) CHECK(row.at(key).is_number());
    CHECK(row.at("seconds").get<double>() > 0);
    baselines.insert(row.at("baseline"));
    benches.insert(row.at("bench"));
  }
  CHECK(baselines == std::set<std::string>{"sgemm", "memcpy", "fp32_step"});
  for (const char* name : {"gemm mxfp4 fp32_block", "quantize mxfp4", "dequantize nvfp4", "hadamard 32",
                           "quantize mxfp4 after hadamard 32", "train mlp-128 fp32", "train mlp-128 mxfp4"}) {
    INFO(name);
    CHECK(benches.contains(name));
  }
}

TEST_CASE("the yardstick of a race has ratio 1 and ratios are rates over its rate", "[cli]") {
  // One table after each race, and where it is on stderr.
  const auto shown = run_cli("bench gemm quantize --sizes 64,128 --elements 65536 --rounds 3");
  size_t tables = 0;
  for (size_t at = 0; (at = shown.out.find("\nbench ", at)) != std::string::npos; ++at) ++tables;
  CHECK(tables == 3);
  const auto result = run_cli("bench quantize --elements 65536 --rounds 1 --json");
  REQUIRE(result.exit_code == 0);
  const auto rows = nlohmann::json::parse(result.out).at("rows");
  REQUIRE(rows.at(0).at("bench") == "memcpy");
  CHECK(rows.at(0).at("ratio") == 1.0);
  for (const auto& row : rows) {
    const double ratio = row.at("rate").get<double>() / rows.at(0).at("rate").get<double>();
    CHECK(row.at("ratio").get<double>() == Approx(ratio));
  }
}

TEST_CASE("tiers show that AVX2 leaves only the later weight of zeros to the reference", "[cli]") {
  const auto result = run_cli("bench tiers --backend avx2 --json");
  if (result.exit_code != 0) {  // a machine without it
    CHECK(result.err.find("avx2") != std::string::npos);
    return;
  }
  std::set<std::string> presets;
  const auto rows = nlohmann::json::parse(result.out).at("tiers");
  for (const auto& row : rows) {
    INFO(row.dump());
    const bool is_later = row.contains("accumulator") && row.at("accumulator").get<std::string>().ends_with("_2026_08");
    if (!is_later) CHECK(row.at("gemm") == "avx2");
    if (row.contains("preset")) presets.insert(row.at("preset"));
  }
  CHECK(presets.count("mxfp4") == 1);
  CHECK(presets.count("graphcore_2509_encode") == 1);
}

TEST_CASE("tiers name the kernels of a product", "[cli]") {
  const auto result = run_cli("bench tiers --kernels --backend avx512 --json");
  if (result.exit_code != 0) {  // a machine without it
    CHECK(result.err.find("avx512") != std::string::npos);
    return;
  }
  for (const auto& row : nlohmann::json::parse(result.out).at("tiers")) {
    INFO(row.dump());
    const std::string kernels = row.at("kernels");
    CHECK((kernels == "-") == (row.at("gemm") == "-"));
    if (row.value("preset", "") == "fp32") CHECK(kernels == "floats 100 %");
    if (row.value("preset", "") == "mxfp8" && row.at("accumulator") == "fp32_block") CHECK(kernels == "pairs 100 %");
    if (row.value("preset", "") == "mxfp8" && row.at("accumulator") == "fused35_rz") {
      CHECK(kernels.find("pairs") == std::string::npos);  // no adder of a chip, no kernel of its own
    }
  }
}

TEST_CASE("what is quantised can be chosen", "[cli]") {
  const auto result = run_cli(
      "bench quantize --elements 65536 --rounds 1 --specs mxfp4,scale=fp32,scale_rule=amax mxfp8,block=tensor --json");
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<std::string> benches;
  const auto rows = nlohmann::json::parse(result.out).at("rows");
  for (const auto& row : rows) benches.push_back(row.at("bench"));
  CHECK(benches == std::vector<std::string>{
                       "memcpy", "read", "quantize mxfp4,scale=fp32,scale_rule=amax", "quantize mxfp8,block=tensor",
                       "dequantize mxfp4,scale=fp32,scale_rule=amax", "dequantize mxfp8,block=tensor"});
}

TEST_CASE("what has no fast path is measured on the reference, a part of it, and marked", "[cli]") {
  for (const char* backend : {"auto", "avx2"}) {
    const auto result =
        run_cli(std::string("bench gemm quantize --sizes 64 --elements 4194304 --rounds 1 --specs mxfp8 "
                            "--accumulators b200_mxf4 --json --backend ") +
                backend);
    if (result.exit_code == 2 && result.err.find("avx2") != std::string::npos) return;  // a machine without it
    INFO(backend << result.err);
    REQUIRE(result.exit_code == 0);
    std::map<std::string, std::string> backends;
    const auto rows = nlohmann::json::parse(result.out).at("rows");
    for (const auto& row : rows) backends[row.at("bench")] = row.at("backend");
    CHECK(backends.at("gemm mxfp8 b200_mxf4, 16 rows of A") == "reference");
    CHECK(backends.at("quantize mxfp8") != "reference");
  }
}

TEST_CASE("operands, accumulators and the spread of their scales can be chosen", "[cli]") {
  const auto result = run_cli(
      "bench gemm --sizes 64 --rounds 1 --specs nvfp4 mxfp4,scale_rule=rceil nvfp4,tensor_scale=outer128 "
      "mxfp4,block=tensor mxfp4,block=64x64 --accumulators exact,fused25_rz --scale-spread 20 --json");
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  std::set<std::string> benches;
  const auto rows = nlohmann::json::parse(result.out).at("rows");
  for (const auto& row : rows) benches.insert(row.at("bench"));
  for (const char* name :
       {"gemm nvfp4 exact", "gemm nvfp4 fused25_rz", "gemm mxfp4,scale_rule=rceil fused25_rz",
        "gemm nvfp4,tensor_scale=outer128 exact", "gemm mxfp4,block=tensor exact", "gemm mxfp4,block=64x64 exact"}) {
    INFO(name);
    CHECK(benches.contains(name));
  }
}

TEST_CASE("a benchmark of nothing known is wrong usage", "[cli]") {
  for (const char* words :
       {"bench gem", "bench gemm --sizes 64 --specs mxfp", "bench gemm --sizes 64 --accumulators k6",
        "bench --backend gp", "bench train --recipes mxfp", "bench --recipes mxfp", "bench --specs mxfp4 nvfp",
        "bench quantize gemm --accumulators k64_rz,int32_wrap"}) {
    const auto result = run_cli(words);
    INFO(words << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Catch::Contains("mxfp4") || Catch::Contains("gemm") || Catch::Contains("k64_rz") ||
                               Catch::Contains("reference"));
  }
}
