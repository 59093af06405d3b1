// `fp4sim cost` as a user meets it: what is printed, what a script reads, what wrong words are answered with.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/support.h"

using namespace fp4::test;
using Catch::Contains;
using Json = nlohmann::json;

namespace {

Json json_of(const std::string& arguments) {
  const RunResult run = run_cli(arguments);
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return Json::parse(run.out);
}

}  // namespace

TEST_CASE("cost: JSON carries the fields that scripts rely on, and terms add up", "[cli]") {
  const Json cost = json_of("cost --recipe mxfp4_all_h16 --json");
  CHECK(cost["arguments"]["model"] == "llama3_8b");
  CHECK(cost["arguments"]["hardware"] == "b200");
  for (const char* field : {"step_time_s", "overhead", "quantisation_overhead", "energy_j", "price", "points"})
    CHECK(cost[field].is_number());
  double sum = 0;
  for (const Json& term : cost["terms"]) {
    sum += term["seconds"].get<double>();
    CHECK_FALSE(term["formula"].get<std::string>().empty());
  }
  CHECK(sum == Approx(cost["compute_s"].get<double>()).epsilon(1e-12));
  CHECK(cost["view_table"].size() == 4);
}

TEST_CASE("cost: a heavier weight costs more, and the JSON says which was set", "[cli]") {
  const Json plain = json_of("cost --recipe mxfp4_sr_rht --hardware b200 --json");
  const Json heavy = json_of("cost --recipe mxfp4_sr_rht --hardware b200 --weight sr=4 --json");
  CHECK(heavy["groups"]["stochastic rounding"].get<double>() > plain["groups"]["stochastic rounding"].get<double>());
  CHECK(heavy["arguments"]["weights"] == Json{{"sr", 4.0}});
  const Json object = json_of("cost --recipe mxfp4_sr_rht --hardware b200 --weight '{\"sr\": 4}' --json");
  CHECK(object["overhead"] == heavy["overhead"]);
}

TEST_CASE("cost: what waits for its inputs waits as long whatever the chip does", "[cli]") {
  const std::string slow = "cost --recipe mxfp4 --hardware b200 --json --prepare-rate ";
  const Json cost = json_of(slow + "100"), quick = json_of(slow + "1e9");
  CHECK(cost["step_time_s"] == 1310.72);  // 131072 tokens
  CHECK(cost["step_time_interval"] == Json{1310.72, 1310.72});
  CHECK(cost["price_interval"][0] == cost["price_interval"][1]);
  CHECK(quick["step_time_interval"][0] < quick["step_time_interval"][1]);
  CHECK(cost["arguments"]["prepare_rate"] == 100);
  for (const char* number : {"nan", "inf", "x"})
    CHECK_THAT(run_cli(std::string("cost --recipe mxfp4 --weight sr=") + number).err, Contains("is not a number"));
  const Json advice = json_of("advise --model llama3_8b --hardware b200 --json --prepare-rate 100");
  for (const Json& row : advice["rows"]) CHECK(row["step_interval"] == Json{1, 1});
}

TEST_CASE("cost compare draws one bar per recipe, the slowest fills the line", "[cli]") {
  const RunResult run = run_cli("cost compare bf16 mxfp8 nvfp4_te --hardware gb200");
  REQUIRE(run.exit_code == 0);
  for (const char* text : {"bf16", "mxfp8", "nvfp4_te", "M matmul", "h hadamard", "overhead"})
    CHECK_THAT(run.out, Contains(text));
  const Json rows = json_of("cost compare bf16 mxfp8 nvfp4_te --hardware gb200 --json")["rows"];
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["overhead"] > rows[1]["overhead"]);
  CHECK(rows[1]["overhead"] > rows[2]["overhead"]);
  for (const std::string& line : {run.out}) CHECK(line.find('\033') == std::string::npos);  // no terminal, no colours
}

TEST_CASE("cost explain, weights, recommend, sensitivity and measure run", "[cli]") {
  const RunResult explain = run_cli("cost explain --recipe nvfp4_te --hardware b200");
  CHECK(explain.exit_code == 0);
  for (const char* text : {"matmul fprop qkv", "FLOP/s", "bytes/s", "data sheet", "estimate"})
    CHECK_THAT(explain.out, Contains(text));
  CHECK(json_of("cost weights --json")["rows"].size() > 30);
  const Json rows =
      json_of("cost recommend --tokens 1e9 --time-budget 100 --recipes bf16,mxfp4_all --hardware b200 --json")["rows"];
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["price"] <= rows[1]["price"]);
  CHECK(rows[0]["native_fp4"] == true);
  CHECK(rows[0]["limit"].is_string());
  const RunResult rent = run_cli("cost recommend --model llama3_8b --tokens 160e9 --time-budget 72");
  for (const char* text : {"rent ", "runner-up ", "why ", "FP4", "waits most for", "chip-hours"})
    CHECK_THAT(rent.out, Contains(text));
  CHECK_THAT(rent.out, !Contains(" 0.00 % 0.00 %"));
  std::istringstream lines(rent.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  CHECK(json_of("cost sensitivity bf16 mxfp4 --json")["rows"].size() == 7);
  const TemporaryFolder root;
  const Json none = json_of("cost measure --root " + root.path().string() + " --json -- true");
  CHECK(none["status"] == "unavailable");
  CHECK(none["energy_j"].is_null());
}

TEST_CASE("cost embedding: four systems a format, sources, lines that fit", "[cli]") {
  const Json rows = json_of("cost embedding --rows fp32,mxfp4 --batch 8 --json")["rows"];
  REQUIRE(rows.size() == 8);
  CHECK(rows[1]["system"] == "pool");
  CHECK(rows[1]["over_pool"] == 1);
  CHECK(rows[4]["row_bytes"] == 34);
  CHECK(rows[0]["dram_bytes"] == 8 * 8 * 32 * 256);
  const RunResult explain = run_cli("cost embedding --explain");
  for (const char* text : {"link_bandwidth", "PCIe 5.0", "2203.00241", "estimate"})
    CHECK_THAT(explain.out, Contains(text));
  for (const std::string& text : {run_cli("cost embedding --batch 8").out, explain.out}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  }
}

TEST_CASE("a data sheet and a config.json give a price in two commands", "[cli]") {
  const TemporaryFolder folder;
  const std::string chip = folder / "mine.json", config = folder / "config.json";
  const std::string sheet =
      "cost new-chip mine --bf16 2250TFLOP/s --fp8 4.5PFLOP/s --fp4 9PFLOP/s --memory-bandwidth 8TB/s "
      "--memory-bytes 180GB --link 900GB/s --network 400Gb/s --node 8 --board 1000W --price 16 ";
  REQUIRE(run_cli(sheet + "--out " + chip).exit_code == 0);
  const Json written = Json::parse(read_text(chip));
  CHECK(written["rates"]["fp4"]["value"] == 9e15);
  CHECK(written["memory_bandwidth"]["value"] == 8e12);
  CHECK(written["network_bandwidth"]["value"] == 5e10);
  CHECK(written["idle_w"]["kind"] == "estimate");
  write_text(config, R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192})");
  const Json cost = json_of("cost --recipe mxfp8 --devices 64 --model " + config + " --hardware " + chip + " --json");
  CHECK(cost["price"].get<double>() > 0);
  CHECK(cost["energy_j"].get<double>() > 0);
  CHECK(cost["price_interval"][0] < cost["price"]);
  CHECK(cost["price_interval"][1] > cost["price"]);
  CHECK(std::find(cost["estimated"].begin(), cost["estimated"].end(), "idle_w") != cost["estimated"].end());
  const std::string model = folder / "my_model.json";
  REQUIRE(
      run_cli("cost new-model my_model " + config + " --sequence 4096 --micro-batches 4 --out " + model).exit_code ==
      0);
  CHECK(Json::parse(read_text(model))["tokens_per_step"] == 4 * 4096);
  // Shares of rates are those of GB200's profile, where they were fitted.
  const Json fits = json_of("show gb200");
  CHECK(written["issue_efficiency"]["value"] == fits["issue_efficiency"]["value"]);
  CHECK(written["efficiency_of"]["fp4 ue5m3/16"]["value"] == fits["efficiency_of"]["fp4 ue4m3/16"]["value"]);
  // What `cost` would not read is not written.
  write_text(config, R"({"model_type": "mixtral", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 64, "max_position_embeddings": 64,
    "num_local_experts": 8, "num_experts_per_tok": 9})");
  const RunResult experts = run_cli("cost new-model experts " + config + " --out " + (folder / "experts.json"));
  CHECK(experts.exit_code == 2);
  CHECK_THAT(experts.err, Contains("expert"));
  CHECK_FALSE(std::filesystem::exists(folder / "experts.json"));
  const auto refused = [&](const std::string& option, const char* text) {
    const RunResult run = run_cli(sheet + option + " --force --out " + chip);
    INFO(option);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains(text));
  };
  refused("--fp6 2250", "--fp6 '2250'");  // TFLOP/s
  refused("--fp6 2250TB/s", "FLOP/s");
  refused("--int8 4.5XFLOP/s", "k, M, G, T or P");
  refused("--fp6 1TFLOP/s", "fp6 is slower than bf16");
}

TEST_CASE("cost validate writes its folder once", "[cli]") {
  const TemporaryFolder folder;
  const std::string out = folder / "validation";
  REQUIRE(run_cli("cost validate --out " + out).exit_code == 0);
  for (const char* name : {"table.csv", "table.json", "table.md", "ranks.md"})
    CHECK(!read_text(out + "/" + name).empty());
  const std::string csv = read_text(out + "/table.csv");
  CHECK(run_cli("cost validate --out " + out).exit_code == 2);
  CHECK(run_cli("cost validate --force --out " + out).exit_code == 0);
  CHECK(read_text(out + "/table.csv") == csv);
}

TEST_CASE("cost: wrong words are answered with the accepted ones, exit code 2", "[cli]") {
  const auto refused = [](const char* arguments, const char* text) {
    const RunResult run = run_cli(arguments);
    INFO(arguments);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Contains(text));
    CHECK(run.out.empty());
  };
  refused("cost --recipe mxfp4 --hardware mi355", "mi355x");
  refused("cost --recipe mxfp4 --model llama", "llama3_8b");
  refused("cost --recipe mxfp5", "mxfp4");
  refused("cost", "--recipe");
  refused("cost --recipe mxfp4 --weight hadamrd=2", "hadamard");
  refused("cost --recipe mxfp4 --weight sr=-1", "sr");
  refused("cost --recipe mxfp4 --views diagonal", "fused");
  refused("cost --recipe mxfp4 --recompute 2", "--recompute");
  refused("cost --recipe mxfp4 --devices 0", "--devices");
  refused("cost --recipe mxfp4 --shard half", "optimizer");
  refused("cost --recipe mxfp4 --devices 8 --gradients mxfp5", "mxfp4");
  refused("cost --recipe mxfp4 --devices 9 --tensor 2", "--tensor 2");
  refused("cost embedding --rows int9", "ue5m3");
  refused("cost embedding --rows fp32 --set links=2", "link_bandwidth");
  refused("cost embedding --pooling 0", "at least 1");
  refused("cost recommend --tokens -1 --time-budget 1", "--tokens");
  refused("cost measure --runs 0 -- true", "--runs");
}

TEST_CASE("cost recommend says why a chip is not recommended, and advises what can be", "[cli]") {
  const TemporaryFolder folder;
  // The chip of tools/examples/architect.md, whose accelerators stand alone, with little memory.
  const std::string chip = folder / "my_chip.json";
  std::string links;
  const auto write = [&](const std::string& more) {
    write_text(chip, R"({"name": "my_chip", "rates": {"fp4": 400e12, "fp8": 200e12, "bf16": 100e12, "fp32": 12e12},
      "emulate": {"fp6": "fp8"}, "efficiency": 0.6, "issue_per_s": 6e12, "issue_efficiency": 0.6,
      "memory_bandwidth": 1.2e12, "memory_bytes": 1e9, "random_source": "philox")" +
                         links + more + "}");
  };
  const std::string command = "cost recommend --model llama3_8b --tokens 1e9 --time-budget 72 --recipes bf16 ";
  write("");
  const RunResult unpriced = run_cli(command + "--hardware " + chip);
  CHECK(unpriced.exit_code == 2);
  CHECK_THAT(unpriced.err, Contains("my_chip has no price") && Contains("price_per_hour"));
  CHECK(unpriced.out.empty());
  write(R"(, "price_per_hour": 2)");
  const RunResult alone = run_cli(command + "--hardware " + chip);
  CHECK(alone.exit_code == 2);
  CHECK_THAT(alone.err, Contains("link_bandwidth, network_bandwidth, node_size") && Contains("my_chip"));
  links = R"(, "network_bandwidth": 5e10, "node_size": 1)";
  // Weights of 8e9 parameters in bf16 alone take 16 GB.
  write(R"(, "price_per_hour": 2)");
  const RunResult small = run_cli(command + "--hardware " + chip);
  INFO(small.err);
  REQUIRE(small.exit_code == 0);
  CHECK_THAT(small.out, Contains("no chip holds the model") && Contains("--shard full") && !Contains("--tensor"));
  CHECK_THAT(run_cli(command + "--shard full --max-devices 1 --hardware " + chip).out,
             Contains("no chip holds the model") && !Contains("try"));
  const RunResult few = run_cli(command + "--max-devices 1 --pipeline 2 --hardware " + chip);
  CHECK(few.exit_code == 2);
  CHECK_THAT(few.err, Contains("--max-devices 1"));
  for (const char* replica : {"--pipeline 4", "--tensor 8"})
    CHECK(run_cli(std::string("cost recommend --tokens 1e11 --time-budget 100 ") + replica).exit_code == 0);
  const RunResult odd = run_cli("cost recommend --tokens 1e11 --time-budget 100 --tensor 7");
  CHECK(odd.exit_code == 2);
  CHECK_THAT(odd.err, Contains("--tensor 7"));
  // What waits for its inputs costs what that takes, whatever the chip does.
  const Json rent =
      json_of("cost recommend --tokens 1e9 --time-budget 1e5 --prepare-rate 100 --recipes bf16 mxfp4 --json");
  for (const Json& row : rent["rows"]) CHECK(row["price_interval"] == Json{row["price"], row["price"]});
  const RunResult devices = run_cli(command + "--devices 8 --hardware b200");
  CHECK(devices.exit_code == 2);
  CHECK_THAT(devices.err, Contains("--devices"));
}
