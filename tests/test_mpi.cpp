// Ranks that mpirun starts: the same bits as threads in one process, and what is left when one of them is lost.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "sim/train/checkpoint.h"
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

const std::string endless = " train --task regression --set variant=control --recipe mxfp4 --seed 3 --steps 1000000 ";

// On two threads.
std::string digest_on_threads(const sim::Json& given, sim::RunOptions options) {
  std::string digest;
  test::ThreadRanks threads(2);
  threads.run([&](sim::Ranks& ranks) {
    sim::RunOptions own = options;
    own.ranks = &ranks;
    const std::string mine = tasks::run(tasks::canonical(given), 3, own).digest;
    if (ranks.rank() == 0) digest = mine;
  });
  return digest;
}

// The run `endless` after `step` steps.
std::string stopped_on_threads(int step, const std::string& resume) {
  sim::RunOptions options;
  options.wire = sim::wire_from_words("fp32", 0);
  options.resume_from = resume;
  options.stop_at = step;
  const sim::Json task = {{"name", "regression"}, {"variant", "control"}};
  return digest_on_threads({{"task", task}, {"recipe", "mxfp4"}, {"train", {{"steps", 1000000}}}}, options);
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
  sim::RunOptions options;
  options.wire = sim::wire_from_words(wire, 0);
  CHECK(digest_of(two) ==
        digest_on_threads({{"task", "classifier"}, {"recipe", "mxfp4"}, {"train", {{"steps", 20}}}}, options));
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
  // Endless in practice: what ends it is the signal to the last process that mpirun started, after a first checkpoint.
  const auto lost = run_shell(test::mpirun(2) + test::fp4sim_path() + endless + "--gradients fp32 --quiet --no-sync " +
                              "--checkpoint-every 0.001 --checkpoint " + checkpoint + " > " + folder / "out" +
                              " & id=$!; until [ -s " + checkpoint + " ]; do kill -0 $id || exit 99; done; " +
                              "read -r ranks < /proc/$id/task/$id/children; kill -9 ${ranks##* }; wait $id");
  INFO(lost.out << lost.err);
  CHECK(lost.exit_code == 137);
  CHECK(std::regex_search(lost.err, std::regex("exited on\\s+signal 9")));  // Open MPI 5 wraps its lines
  CHECK(test::read_text(folder / "out").find("digest") == std::string::npos);
  const int step = sim::read_checkpoint(checkpoint).step;
  REQUIRE(step >= 1);
  CHECK(stopped_on_threads(step + 5, checkpoint) == stopped_on_threads(step + 5, ""));
}

TEST_CASE("a signal to any rank ends all of them after the same step, with a checkpoint", "[cli]") {
  if (const std::string reason = test::no_mpi(); !reason.empty()) {
    WARN("SKIPPED: " + reason);
    return;
  }
  // To the second rank, to the first, and to mpirun, which is given the time.
  for (const std::string target : {"${ranks##* }", "${ranks%% *}", "$id"}) {
    const test::TemporaryFolder folder;
    const std::string checkpoint = folder / "c", seen = folder / "seen";
    std::string mpirun = test::mpirun(2);
    mpirun.insert(mpirun.find(" -n "), " --mca odls_base_sigkill_timeout 2");
    const auto run = run_shell(mpirun + test::fp4sim_path() + endless +
                               "--gradients fp32 --no-sync --checkpoint-every 0.001 --checkpoint " + checkpoint +
                               " > " + folder / "out" + " 2> " + seen + " & id=$!; until [ -s " + checkpoint +
                               " ]; do kill -0 $id || exit 99; done; " +
                               "read -r ranks < /proc/$id/task/$id/children; kill -TERM " + target + "; wait $id");
    INFO(target << " " << test::read_text(seen));
    CHECK(run.exit_code != 99);
    CHECK(run.exit_code != 0);
    const int step = sim::read_checkpoint(checkpoint).step;
    REQUIRE(step >= 1);
    // Open MPI 5 kills ranks .3 s after its own signal: what was last written goes on.
    if (target != "$id" || !mpi::status().starts_with("Open MPI 5"))
      CHECK_THAT(test::read_text(seen), Catch::Contains("interrupted after step " + std::to_string(step)));
    CHECK(stopped_on_threads(step + 5, checkpoint) == stopped_on_threads(step + 5, ""));
  }
}

TEST_CASE("a rank that is stopped is named after the limit", "[cli]") {
  if (const std::string reason = test::no_mpi(); !reason.empty()) {
    WARN("SKIPPED: " + reason);
    return;
  }
  const test::TemporaryFolder folder;
  const std::string checkpoint = folder / "c";
  const auto run = run_shell(test::mpirun(3) + test::fp4sim_path() + endless +
                             "--set train.batch=96 --gradients fp32 --quiet --no-sync --rank-limit 2 " +
                             "--checkpoint-every 0.001 --checkpoint " + checkpoint + " > " + folder / "out" +
                             " & id=$!; until [ -s " + checkpoint + " ]; do kill -0 $id || exit 99; done; " +
                             "read -r ranks < /proc/$id/task/$id/children; kill -STOP ${ranks##* }; wait $id");
  INFO(run.out << run.err);
  CHECK(run.exit_code == 1);
  // Where rank 2 was stopped between its answers to rank 0 and to rank 1, one of them waits for both others.
  CHECK((Catch::Contains("from rank 2 for ") || Catch::Contains("no answer to rank 0 from rank 1, 2 for ") ||
         Catch::Contains("no answer to rank 1 from rank 0, 2 for "))
            .match(run.err));
  CHECK(run.err.find("to rank 0 from rank 1 for ") == std::string::npos);  // to rank 2, later: it has ended
}
