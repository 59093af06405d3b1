// The door for hardware designers: words for $readmemh, the testbench and scoreboard that `golden make` writes, the DPI
// functions; run by Verilator and Icarus on a dot unit of the tests' own (tests/rtl), right and with faults.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "src/c_api/fp4sim_dpi.h"
#include "src/files/tensor_writer.h"
#include "tests/support/share.h"
#include "tests/support/support.h"

using fp4::test::read_text, fp4::test::run_cli, fp4::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

bool has(const std::string& program) {
  if (std::system(("command -v " + program + " > /dev/null").c_str()) == 0) return true;
  WARN("no " + program + " here: its part was not run (tools/setup.sh installs it)");
  return false;
}

// What a command prints, run in a folder.
std::string printed(const fs::path& where, const std::string& command) {
  const std::string all = "cd " + where.string() + " && ( " + command + " ) > printed.txt 2>&1";
  const int code = std::system(all.c_str());
  const std::string text = read_text(where / "printed.txt");
  INFO(command << "\n" << text);
  CHECK(code == 0);
  return text;
}

// A bundle of one product, M x N x K, for simulators, and its case's folder.
fs::path made_case(const fs::path& at, const std::string& spec, const std::string& shape, const std::string& adders) {
  const auto made = run_cli("golden make --spec " + spec + " --shape " + shape + " --accumulators " + adders +
                            " --as readmemh --no-sync --out " + at.string());
  INFO(made.out << made.err);
  REQUIRE(made.exit_code == 0);
  for (const auto& entry : fs::directory_iterator(at))
    if (entry.is_directory()) return entry.path();
  FAIL("no case");
  return {};
}

const std::string unit = fs::absolute("tests/rtl/dot_unit.sv").string();
const std::string sources = " ../fp4sim_tb.sv ../fp4sim_scoreboard.sv " + unit;

}  // namespace

TEST_CASE("words for readmemh are those of the operands", "[cli]") {
  const TemporaryFolder folder;
  const fs::path at = made_case(folder / "g", "mxfp4", "2x3x64", "fp32_block,b200_mxf4");
  const std::string svh = read_text(at / "case.svh");
  CHECK_THAT(svh, Catch::Contains("ROWS = 2, ROWS_B = 3, K = 64, CODE_BITS = 4, BLOCK = 32"));
  CHECK(read_text(at / "a.hex").size() == 2 * (64 + 1));
  CHECK(read_text(at / "b_scales.hex").size() == 3 * (2 * 2 + 1));
  CHECK(read_text(at / "output_b200_mxf4.hex").size() == 6 * 9);
  for (const char* wrong :
       {"--spec nvfp4 --shape 2x3x64", "--spec mxfp4 --shape 4x64", "--spec mxfp4 --shape 2x3x48"}) {
    INFO(wrong);
    CHECK(run_cli(std::string("golden make ") + wrong + " --as readmemh --out " + (folder / "w")).exit_code == 2);
  }
  // A dump in hexadecimal is judged: the right one, one whose words are turned round, one with a letter too many.
  const std::string verify =
      "verify --golden " + (folder / "g") + " --stage output --accumulator b200_mxf4 --candidate ";
  CHECK(run_cli(verify + (at / "output_b200_mxf4.hex").string()).exit_code == 0);
  fp4::test::write_text(folder / "got.hex", "00000000 // zeros\n" + read_text(at / "output_b200_mxf4.hex").substr(9));
  CHECK(run_cli(verify + (folder / "got.hex")).exit_code == 1);
  fp4::test::write_text(folder / "got.hex", "0000000g\n");
  const auto bad = run_cli(verify + (folder / "got.hex"));
  CHECK(bad.exit_code == 2);
  CHECK_THAT(bad.err, Catch::Contains("line 1") && Catch::Contains("0000000g"));
}

TEST_CASE("a dot unit is right in two simulators, and its faults are named", "[cli]") {
  const TemporaryFolder folder;
  const std::string path = "PATH=" + fs::absolute(fp4::test::fp4sim_path()).parent_path().string() + ":$PATH ";
  struct Run {
    const char *plusargs, *says;
  };
  // 320 x 160 sums of two steps: 102,400 vectors of each adder.
  const Run runs[] = {{"+adder=fp32_block +unit=0", "fp4sim: equal, 51200 of 51200 sums"},
                      {"+adder=b200_mxf4 +unit=1", "fp4sim: equal, 51200 of 51200 sums"},
                      {"+adder=b200_mxf4 +mutant=1", "b.nibbles=high_first"},
                      {"+adder=b200_mxf4 +mutant=2", "equals a.nibbles=unsigned"},
                      {"+adder=b200_mxf4 +mutant=3", "equals k=missing (k 0 to 63 of 128 (part 1 of 2) is not summed)"},
                      {"+adder=b200_mxf4 +mutant=4", "2^2"},
                      {"+adder=b200_mxf4 +unit=0", "equals accumulator=fp32_block"}};
  const fs::path at = made_case(folder / "g", "mxfp4", "320x160x128", "fp32_block,b200_mxf4");
  if (has("iverilog")) {
    // Ten times slower: a sixteenth of the sums in tools/test.sh, all with FULL=1.
    const bool takes_all = fp4::test::large_share() == 1;
    const fs::path part = takes_all ? at : made_case(folder / "p", "mxfp4", "160x20x128", "fp32_block,b200_mxf4");
    printed(part, "iverilog -g2012 -I . -o unit.vvp" + sources);
    const std::string says = takes_all ? "fp4sim: equal, 51200 of 51200 sums" : "fp4sim: equal, 3200 of 3200 sums";
    for (const Run& run : {runs[0], runs[1]})
      CHECK_THAT(printed(part, std::string("vvp -n unit.vvp ") + run.plusargs), Catch::Contains(says));
    const fs::path small = made_case(folder / "n", "nvfp4,tensor_scale=none", "24x24x128", "fp32_block");
    printed(small, "iverilog -g2012 -DDOT_BLOCK=16 -I . -o unit.vvp" + sources);
    CHECK_THAT(printed(small, "vvp -n unit.vvp +adder=fp32_block +unit=0"), Catch::Contains("equal, 576 of 576 sums"));
  }
  if (has("verilator")) {
    printed(at, "verilator --binary --timing -O3 --unroll-count 1 -Wno-fatal -I. --top-module fp4sim_tb -Mdir made" +
                    sources);
    for (const Run& run : runs) {
      INFO(run.plusargs);
      CHECK_THAT(printed(at, path + "made/Vfp4sim_tb " + run.plusargs), Catch::Contains(run.says));
    }
  }
}

TEST_CASE("functions for DPI are those of the program, word by word", "[quick]") {
  // 2 * 3 + (-0.5) * 4, all under 2^1 * 2^-1, on top of 1: codes 4, 5, 9, 6.
  const uint32_t a[16] = {0x00000094}, b[16] = {0x00000065}, one[16] = {0x7f7f7f80}, half[16] = {0x7f7f7f7e};
  int64_t dot = 0;
  CHECK(fp4sim_dpi_dot("e2m1", 2, a, b, &dot) == 0);
  CHECK(dot == 16);  // (2 * 3 - 0.5 * 4) in quarters
  uint32_t d = 0;
  for (const char* adder : {"b200_mxf4", "fp32_block", "exact", "k64_rz"}) {
    CHECK(fp4sim_dpi_step(adder, "e2m1", "e8m0", 32, 64, a, b, one, half, 0x3f800000, &d) == 0);
    CHECK(d == 0x40a00000);  // 1 + 6 - 2 = 5
  }
  uint32_t code = 0;
  CHECK(fp4sim_dpi_quantize("e2m1", "e8m0", "nearest_even", 0, 0, 0x80, 0x40a00000, &code) == 0);  // 5 / 2 = 2.5
  CHECK(code == 4);
  CHECK(fp4sim_dpi_scale("e2m1", "e8m0", "floor", 0x40a00000, &code) == 0);  // 2^(2 - 2)
  CHECK(code == 127);
  CHECK(fp4sim_dpi_step("no_adder", "e2m1", "e8m0", 32, 64, a, b, one, half, 0, &d) == 2);
  CHECK(fp4sim_dpi_step("b200_mxf4", "e2m1", "e9m0", 32, 64, a, b, one, half, 0, &d) == 2);
  CHECK(fp4sim_dpi_quantize("fp32", "none", "nearest_even", 0, 0, 0, 0, &code) == 2);
  for (const int bits : {-3, 0, 7, 99})
    CHECK(fp4sim_dpi_quantize("e2m1", "e8m0", "stochastic", bits, 0, 0x80, 0x40a00000, &code) == 2);
  CHECK(fp4sim_dpi_quantize("e2m1", "ue4m3", "nearest_even", 0, 0, 0x80, 0x40a00000, &code) == 2);  // seven bits
  CHECK(fp4sim_dpi_scale("e2m1", "e8m0", "ms_eden", 0x40a00000, &code) == 2);  // a rule of scales with mantissas
  const uint32_t largest[1] = {0x7b};                                          // (57344 / 2^-16)^2 > 2^63
  CHECK(fp4sim_dpi_dot("e5m2", 1, largest, largest, &dot) == 2);
}

TEST_CASE("the package is imported by a simulator", "[cli]") {
  if (!has("verilator")) return;
  const TemporaryFolder folder;
  fp4::test::write_text(
      folder / "top.sv",
      "module top;\n  import fp4sim_pkg::*;\n  initial begin\n"
      "    $display(\"%h\", step(\"b200_mxf4\", \"e2m1\", \"e8m0\", 32, 64, 512'h94, 512'h65, 512'h7f80, "
      "512'h7f7e, 32'h3f800000));\n    $finish;\n  end\nendmodule\n");
  const fs::path build = fs::absolute(fp4::test::fp4sim_path()).parent_path();
  std::string library;
  for (const auto& entry : fs::recursive_directory_iterator(build))
    if (entry.path().filename() == "libfp4sim.so") library = entry.path().string();
  if (library.empty()) {
    WARN("libfp4sim.so is not built here: the package was not run");
    return;
  }
  const fs::path at = fs::path(folder / "");
  printed(at, "verilator --binary --timing -Wno-fatal --top-module top -Mdir made " +
                  fs::absolute("tools/rtl/fp4sim_pkg.sv").string() + " top.sv " + library);
  CHECK_THAT(printed(at, "LD_LIBRARY_PATH=" + fs::path(library).parent_path().string() + " made/Vtop"),
             Catch::Contains("40a00000"));
}

// The example of K = 128 with the sums 2^24, 1.5, 1.5, which adders round differently: each step by hand.
TEST_CASE("one output is traced step by step", "[cli]") {
  const TemporaryFolder folder;
  std::vector<float> a(128, 0.0f), b(128, 0.0f);
  a[0] = 0x1p22f, a[32] = a[64] = 1.5f;
  b[0] = 4, b[32] = b[64] = 1;
  fp4::save_tensor(folder / "a.npy", fp4::Dtype::f32, {1, 128}, a.data());
  fp4::save_tensor(folder / "b.npy", fp4::Dtype::f32, {1, 128}, b.data());
  const auto traced = [&](const char* adder) {
    return run_cli(std::string("gemm ") + (folder / "a.npy") + " " + (folder / "b.npy") +
                   " --spec mxfp4 --accumulator " + adder + " --trace-adder 0 0 --force --out " + (folder / "c.npy"));
  };
  CHECK_THAT(traced("k64_rz").out, Catch::Contains("4b800001 = 16777218") && Catch::Contains("2000003 * 2^-1"));
  CHECK_THAT(traced("fp32_block").out, Catch::Contains("4b800002 = 16777220"));
  const auto fused = traced("fused35_rz");
  INFO(fused.out);
  CHECK_THAT(fused.out, Catch::Contains("4b800000 = 16777216"));
  CHECK(traced("double").exit_code == 2);
  // To odd: 2^24 + 1.5 lies between 16777216 and 16777218, whose last bit is 1; with 1.5 more it stays.
  fp4::test::write_text(
      folder / "odd.json",
      "{\"kind\": \"aligned\", \"group\": 64, \"inner\": 16, \"fraction_bits\": 35, \"rounding\": \"odd\"}");
  CHECK_THAT(traced((folder / "odd.json").c_str()).out, Catch::Contains("4b800001 = 16777218"));
}
