// `fp4sim cost stalls --measure` with real ranks; over a slow link where network namespaces are allowed. Times are only
// compared where a link makes the difference twentyfold: tests/stalls/bench_stalls.py measures how exact the shares
// are.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/mpi.h"

using namespace fp4;
using Json = nlohmann::json;

namespace {

const std::string words = " cost stalls --measure --task classifier --recipe fp32 --repeats 1 --json --steps ";

double share_of(const Json& json, const std::string& stall) {
  for (const Json& row : json.at("stalls"))
    if (row.at("stall") == stall) return row.at("share");
  return -1e9;
}

double step_of(const Json& json, const std::string& run) {
  for (const Json& row : json.at("runs"))
    if (row.at("run") == run) return row.at("step_seconds");
  return 0;
}

}  // namespace

TEST_CASE("cost stalls runs all difference runs and takes their differences", "[cli]") {
  if (const std::string reason = test::no_mpi(); !reason.empty()) {
    const auto run = test::run_cli(words.substr(1) + "5");
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Catch::Contains("MPI"));
    WARN("SKIPPED: " + reason);
    return;
  }
  const test::TemporaryFolder folder;
  std::string images("\0\0\x8\x3\0\0\x1\0\0\0\0\x8\0\0\0\x8", 16), labels("\0\0\x8\x1\0\0\x1\0", 8);
  for (int i = 0; i < 256; ++i) {
    labels += static_cast<char>(i % 10);
    for (int p = 0; p < 64; ++p) images += static_cast<char>((i + p) % 200);
  }
  test::write_text(folder / "images", images);
  test::write_text(folder / "labels", labels);
  const auto run = test::run_shell(test::fp4sim_path() + words + "8 --gradients mxfp4 --images " + folder / "images" +
                                   " --labels " + folder / "labels" + " --launch '" + test::mpirun(2) + "'");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Json json = Json::parse(run.out);
  const double t0 = step_of(json, "T0"), t1 = step_of(json, "T1"), t2 = step_of(json, "T2"), t3 = step_of(json, "T3");
  REQUIRE((t0 > 0 && t1 > 0 && t2 > 0 && t3 > 0));
  CHECK(share_of(json, "interconnect") == Approx((t1 - t0) / t1));
  CHECK(share_of(json, "preparation") == Approx((t3 - t1) / t3));
  CHECK(share_of(json, "fetch") == Approx((t2 - t3) / t2));
}

TEST_CASE("a slow link between two machines is found as the network stall", "[cli]") {
  if (const std::string reason = test::no_mpi(); !reason.empty()) {
    WARN("SKIPPED: " + reason);
    return;
  }
  // 26k weights: two messages of 54 kB a step, 1.045 times as much with headers; after bursts of 5 kB they take 0.2 s
  // at 4 Mbit/s, on however busy a machine. A step alone takes less than 10 ms on an idle one.
  const auto run = test::run_shell("tests/stalls/slow_link.sh 4mbit sh -c '" + test::fp4sim_path() + words +
                                   "4 --launch \"" + test::mpirun(2) + "\" --launch-nodes \"$TWO_MACHINES\"'");
  if (run.exit_code == 77) {
    WARN("SKIPPED: " + run.out);
    return;
  }
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Json json = Json::parse(run.out);
  const double ts = step_of(json, "T1"), tm = step_of(json, "Tm");
  CHECK(share_of(json, "network") == Approx((tm - ts) / ts));
  CHECK(tm > 0.19);
  CHECK(tm > ts);
  CHECK(json.at("runs")[1].at("digest") == json.at("runs")[2].at("digest"));
}

TEST_CASE("shares are medians of rounds, each by the times of its own round", "[cli]") {
  if (!test::no_mpi().empty()) return;
  const auto run = test::run_cli("cost stalls --measure --task classifier --recipe fp32 --repeats 3 --json --steps 4 " +
                                 ("--launch '" + test::mpirun(2) + "'"));
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const Json json = Json::parse(run.out), stall = json.at("stalls")[0];
  std::vector<double> t0 = json.at("runs")[0].at("repeats"), t1 = json.at("runs")[1].at("repeats"), shares;
  for (size_t i = 0; i < 3; ++i) shares.push_back((t1[i] - t0[i]) / t1[i]);
  for (size_t i = 0; i < 3; ++i) CHECK(stall.at("repeats")[i].get<double>() == Approx(shares[i]));
  std::sort(shares.begin(), shares.end());
  CHECK(stall.at("share").get<double>() == Approx(shares[1]));
}

TEST_CASE("the Slurm script spreads ranks over the nodes of its job", "[cli]") {
  const test::TemporaryFolder folder;
  test::write_text(folder / "scontrol", "#!/bin/sh\necho n1; echo n2\n");
  test::write_text(folder / "program", "#!/bin/sh\nfor word in \"$@\"; do echo \"[$word]\"; done\n");
  const std::string here = std::filesystem::current_path().string();
  const auto script = [&](const std::string& words) {
    return test::run_shell("cd " + folder.path().string() +
                           " && chmod +x scontrol program && PATH=.:$PATH FP4SIM=./program " +
                           "SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='n[1-2]' SLURM_JOB_ID=7 GRADIENTS=mxfp4 sh " +
                           here + "/tools/slurm/submit_stalls.sh " + words);
  };
  const auto run = script("4 --task lm --text corpus");
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const std::string words = test::read_text(folder / "stalls-7.json");
  CHECK_THAT(words, Catch::Contains("[--ranks]\n[4]\n[--gradients]\n[mxfp4]\n"));
  CHECK_THAT(words, Catch::Contains("[--launch]\n[mpirun --host n1:4 -n 4]\n"));
  CHECK_THAT(words, Catch::Contains("[--launch-nodes]\n[mpirun --map-by ppr:2:node --oversubscribe -n 4]\n"));
  CHECK_THAT(words, Catch::Contains("[--task]\n[lm]\n[--text]\n[corpus]\n"));
  const auto odd = script("3 --task lm");
  CHECK(odd.exit_code == 2);
  CHECK_THAT(odd.err, Catch::Contains("3 ranks cannot be spread evenly over 2 nodes"));
}

TEST_CASE("cost stalls refuses what cannot be measured", "[cli]") {
  const auto plain = test::run_cli("cost stalls --task classifier");
  CHECK(plain.exit_code == 2);
  CHECK_THAT(plain.err, Catch::Contains("--measure"));
  if (!test::no_mpi().empty()) return;
  const auto odd = test::run_cli("cost stalls --measure --task classifier --ranks 3");
  CHECK(odd.exit_code == 2);
  CHECK_THAT(odd.err, Catch::Contains("128 examples cannot be shared evenly by 3 ranks"));
  const auto lost = test::run_cli("cost stalls --measure --task classifier --steps 2 --launch false");
  CHECK(lost.exit_code == 1);
  CHECK_THAT(lost.err, Catch::Contains("the run T1 failed"));
}
