// Ranks that mpirun starts: the same bits as threads in one process, and what is left when one of them is lost.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/checkpoint.h"
#include "tasks/run.h"
#include "tests/support/mpi.h"
#include "tests/support/thread_ranks.h"

using namespace fp4;
using fp4::test::run_shell;
using Json = nlohmann::json;

namespace {

const std::string words = " train --task classifier --recipe mxfp4 --seed 3 ";

std::string digest_of(const test::RunResult& run) {
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  return Json::parse(run.out).at("digest");
}

// The same run on two threads.
std::string digest_on_threads(int steps, const std::string& wire, const std::string& resume = "", int stop_at = 0) {
  const sim::Json config =
      tasks::canonical({{"task", "classifier"}, {"recipe", "mxfp4"}, {"train", {{"steps", steps}}}});
  std::string digest;
  test::ThreadRanks threads(2);
  threads.run([&](sim::Ranks& ranks) {
    sim::RunOptions options;
    options.ranks = &ranks;
    options.wire = sim::wire_from_words(wire, 0);
    options.resume_from = resume;
    options.stop_at = stop_at;
    const std::string mine = tasks::run(config, 3, options).digest;
    if (ranks.rank() == 0) digest = mine;
  });
  return digest;
}

}  // namespace

TEST_CASE("ranks of mpirun give the bits of threads; one rank those of the ordinary run", "[cli]") {
  if (const std::string reason = test::no_mpi(); !reason.empty()) {
    const auto run = test::run_cli(words.substr(1) + "--gradients fp32");
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, Catch::Contains("MPI"));
    WARN("SKIPPED: " + reason);
    return;
  }
  const std::string program = test::fp4sim_path() + words + "--steps 20 --json --quiet ",
                    wire = "mxfp4,rounding=stochastic";
  const auto two = run_shell(test::mpirun(2) + program + "--gradients " + wire);
  CHECK(digest_of(two) == digest_on_threads(20, wire));
  CHECK(Json::parse(two.out).at("parallel").at("ranks") == 2);
  CHECK(digest_of(run_shell(test::mpirun(1) + program + "--gradients mxfp4")) == digest_of(run_shell(program)));
}

TEST_CASE("a rank that is killed ends the run, and its last checkpoint goes on", "[cli]") {
  if (const std::string reason = test::no_mpi(); !reason.empty()) {
    WARN("SKIPPED: " + reason);
    return;
  }
  const test::TemporaryFolder folder;
  const std::string checkpoint = folder / "c";
  // The first line of progress comes after a tenth of the steps; then the last process that mpirun started is killed.
  const auto lost =
      run_shell("mkfifo " + folder / "progress" + "; " + test::mpirun(2) + test::fp4sim_path() + words +
                "--steps 2000 --gradients fp32 --no-sync --checkpoint-every 0.001 --checkpoint " + checkpoint + " > " +
                folder / "out" + " 2> " + folder / "progress" + " & id=$!; exec 3< " + folder / "progress" +
                "; while read -r line <&3; do case $line in *'] 200/2000'*) break;; " +
                "esac; done; read -r ranks < /proc/$id/task/$id/children; kill -9 ${ranks##* }; "
                "cat <&3; wait $id");
  INFO(lost.out << lost.err);
  CHECK(lost.exit_code != 0);
  CHECK_THAT(lost.out, Catch::Contains("exited on signal 9"));
  CHECK(test::read_text(folder / "out").find("digest") == std::string::npos);
  const int step = sim::read_checkpoint(checkpoint).step;
  REQUIRE(step >= 199);
  REQUIRE(step < 1990);
  CHECK(digest_on_threads(2000, "fp32", checkpoint, step + 5) == digest_on_threads(2000, "fp32", "", step + 5));
}
