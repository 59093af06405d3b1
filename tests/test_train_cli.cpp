// Does a training that is stopped, interrupted or resumed tell the truth? The real binary and real signals.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/text/words.h"
#include "tests/support/support.h"

using fp4::test::run_cli;
using fp4::test::TemporaryFolder;
using Json = nlohmann::json;

namespace {

// The program with its stderr in a pipe, and with signals as a terminal gives them (a test runner may ignore some).
class Training {
 public:
  explicit Training(const std::string& words) {
    std::vector<std::string> parts = fp4::split(fp4::test::fp4sim_path() + " " + words, ' ');
    std::vector<char*> arguments;
    for (std::string& part : parts) arguments.push_back(part.data());
    arguments.push_back(nullptr);
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 2);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    REQUIRE(posix_spawn(&pid_, arguments[0], &files, &attributes, arguments.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    ::close(ends[1]);
    stderr_ = ends[0];
  }
  ~Training() { ::close(stderr_); }

  // Blocks until the program has written `word` to stderr, or has ended.
  void wait_for(const char* word) {
    std::array<char, 512> block;
    while (word == nullptr || text_.find(word) == std::string::npos) {
      const ssize_t got = ::read(stderr_, block.data(), block.size());
      if (got <= 0) return;
      text_.append(block.data(), static_cast<size_t>(got));
    }
  }
  void send(int signal) { ::kill(pid_, signal); }
  // As a shell reports it; the rest of stderr is in text().
  int wait() {
    wait_for(nullptr);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  const std::string& text() const { return text_; }

 private:
  pid_t pid_ = 0;
  int stderr_ = -1;
  std::string text_;
};

size_t entries(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator all(folder.path());
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

const std::string words = "train --task classifier --recipe ue5m3_hold50 --seed 3 --steps 3000";

}  // namespace

TEST_CASE("signals write the checkpoint, and the resumed run equals an uninterrupted one by bits", "[cli]") {
  const TemporaryFolder folder;
  const std::string whole = folder / "whole.json", resumed = folder / "resumed.json", checkpoint = folder / "c";
  REQUIRE(run_cli(words + " --quiet --out " + whole).exit_code == 0);
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    Training training(words + " --checkpoint " + checkpoint + " --out " + resumed);
    training.wait_for("] 600/3000");
    training.send(signal);
    CHECK(training.wait() == code);
    CHECK_THAT(training.text(),
               Catch::Contains("interrupted after step ") && Catch::Contains("--resume " + checkpoint));
    CHECK(entries(folder) == 2);  // whole.json and the checkpoint: no result, no temporary file
    REQUIRE(run_cli(words + " --quiet --resume " + checkpoint + " --out " + resumed).exit_code == 0);
    const Json a = Json::parse(fp4::test::read_text(whole)), b = Json::parse(fp4::test::read_text(resumed));
    for (const char* key : {"digest", "metrics", "curve", "status", "steps"}) CHECK(a.at(key) == b.at(key));
    std::filesystem::remove(resumed);
    std::filesystem::remove(checkpoint);
  }
}

// `timeout` sends SIGTERM to the program and again to its group.
TEST_CASE("signals that come together are one request", "[cli]") {
  const TemporaryFolder folder;
  Training training(words + " --checkpoint " + (folder / "c"));
  training.wait_for("] 600/3000");
  for (int i = 0; i < 50; ++i, ::usleep(200)) training.send(SIGTERM);
  CHECK(training.wait() == 143);
  CHECK_THAT(training.text(), Catch::Contains("interrupted after step "));
  CHECK(entries(folder) == 1);
}

TEST_CASE("an interrupted training without a checkpoint says so and leaves nothing", "[cli]") {
  const TemporaryFolder folder;
  Training training(words + " --out " + (folder / "run.json") + " --trace " + (folder / "trace.csv"));
  training.wait_for("] 1/3000");
  training.send(SIGINT);
  CHECK(training.wait() == 130);
  CHECK_THAT(training.text(), Catch::Contains("nothing is kept without --checkpoint"));
  CHECK(entries(folder) == 0);
}

TEST_CASE("a stopped run is not finished", "[cli]") {
  const TemporaryFolder folder;
  const std::string few = "train --task classifier --recipe mxfp4 --steps 40 --quiet", checkpoint = folder / "c";
  const auto lost = run_cli(few + " --stop-at 10 --out " + (folder / "run.json"));
  CHECK(lost.exit_code == 2);
  CHECK_THAT(lost.err, Catch::Contains("--stop-at requires --checkpoint"));
  CHECK(entries(folder) == 0);
  const auto stopped = run_cli(few + " --stop-at 10 --json --checkpoint " + checkpoint);
  REQUIRE(stopped.exit_code == 0);
  CHECK(Json::parse(stopped.out).at("status") == "stopped");
  CHECK_THAT(Json::parse(stopped.out).at("message").get<std::string>(), Catch::Contains("after step 10 of 40"));
  CHECK(run_cli(few + " --stop-at 10 --checkpoint " + checkpoint + " --resume " + checkpoint).exit_code == 2);
  CHECK(run_cli(few + " --stop-at 41 --checkpoint " + checkpoint).exit_code == 2);
  const auto resumed = run_cli(few + " --json --resume " + checkpoint);
  REQUIRE(resumed.exit_code == 0);
  const Json whole = Json::parse(run_cli(few + " --json").out);
  CHECK(Json::parse(resumed.out).at("digest") == whole.at("digest"));
  // The checkpoint says task, recipe, steps and seed; words of the command line that differ are refused, or branch.
  const auto short_words = run_cli("train -q --json --resume " + checkpoint);
  INFO(short_words.err);
  REQUIRE(short_words.exit_code == 0);
  for (const char* part : {"digest", "config", "task", "recipe", "seed", "steps"})
    CHECK(Json::parse(short_words.out).at(part) == whole.at(part));
  for (const char* other : {" --recipe nvfp4", " --steps 41", " --seed 2", " --set lr=1", " --task regression"})
    CHECK(run_cli("train -q --resume " + checkpoint + other).exit_code == 2);
  const auto branched = run_cli("train -q --json --branch --recipe nvfp4 --steps 30 --resume " + checkpoint);
  REQUIRE(branched.exit_code == 0);
  CHECK(Json::parse(branched.out).at("digest") ==
        Json::parse(
            run_cli("train -q --json --branch --task classifier --recipe nvfp4 --steps 30 --resume " + checkpoint).out)
            .at("digest"));
  CHECK_THAT(run_cli("train -q").err, Catch::Contains("missing: --task"));
  // One flipped bit is exit code 1 and names the file; a resumed run without a file name is no fresh run.
  std::string bytes = fp4::test::read_text(checkpoint);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  fp4::test::write_text(checkpoint, bytes);
  const auto damaged = run_cli(few + " --resume " + checkpoint);
  CHECK(damaged.exit_code == 1);
  CHECK_THAT(damaged.err, Catch::Contains(checkpoint + ": the checkpoint is damaged"));
  CHECK(run_cli(few + " --resume ''").exit_code == 2);
}

TEST_CASE("a checkpoint is replaced by the run that goes on from it, or by --force", "[cli]") {
  const TemporaryFolder folder;
  const std::string few = "train --task classifier --recipe mxfp4 --steps 20 --quiet", c = folder / "c",
                    text = folder / "t";
  fp4::test::write_text(text, std::string(5000, 'a'));
  REQUIRE(run_cli(few + " --stop-at 10 --checkpoint " + c).exit_code == 0);
  const std::string bytes = fp4::test::read_text(c), corpus = fp4::test::read_text(text);
  const std::pair<std::string, std::string> refused[] = {
      {few + " --checkpoint " + c, "--resume " + c + " goes on with it"},
      {few + " --seed 2 --checkpoint " + c, c + ": exists already (--force replaces it)"},
      {few + " --checkpoint " + text, text + ": exists already (--force replaces it)"},
      {few + " --resume " + c + " --checkpoint " + text, text + ": exists already"},
      {few + " --branch --resume " + c + " --checkpoint " + c, "the trunk that --branch goes on from"},
      {few + " --resume " + c + " --force --out " + c, "is an input of this command"},
      {few + " --force --out " + (folder / "o") + " --trace " + (folder / "o"), "--out and --trace both name"},
      {few + " --force --out " + (folder / "o") + " --checkpoint " + (folder / "./o"),
       "--out and --checkpoint both name"},
      {"train --task lm --steps 1 --force --text " + text + " --checkpoint " + text, "is an input of this command"},
      {"train --task lm --steps 1 --force --text " + text + " --trace " + text, "is an input of this command"}};
  for (const auto& [command, reason] : refused) {
    const auto result = run_cli(command);
    INFO(command << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains(reason));
    CHECK(fp4::test::read_text(c) == bytes);
    CHECK(fp4::test::read_text(text) == corpus);
    CHECK(entries(folder) == 2);
  }
  REQUIRE(run_cli(few + " --resume " + c + " --checkpoint " + c).exit_code == 0);
  const std::string whole = fp4::test::read_text(c);
  // Of a whole run nothing is left to train, and its result is the run's.
  const Json again = Json::parse(run_cli(few + " --json --resume " + c).out),
             run = Json::parse(run_cli(few + " --json").out);
  for (const char* part : {"digest", "metrics", "status"}) CHECK(again.at(part) == run.at(part));
  CHECK(whole != bytes);
  REQUIRE(run_cli(few + " --force --checkpoint " + c).exit_code == 0);
  CHECK(fp4::test::read_text(c) == whole);
}

TEST_CASE("a run does not go on with other data under the same name", "[cli]") {
  const TemporaryFolder folder;
  const std::string text = folder / "t", c = folder / "c",
                    few = "train -q --task lm --set width=32 ffn=32 context=16 batch=2 --steps 6 --text " + text;
  fp4::test::write_text(text, std::string(3000, 'a') + std::string(3000, 'b'));
  REQUIRE(run_cli(few + " --stop-at 3 --checkpoint " + c).exit_code == 0);
  REQUIRE(run_cli("train -q --resume " + c).exit_code == 0);
  fp4::test::write_text(text, std::string(3000, 'a') + std::string(3000, 'c'));
  for (const std::string& words :
       {"train -q --resume " + c, "train -q --branch --recipe nvfp4 --resume " + c, "eval " + c}) {
    const auto result = run_cli(words);
    INFO(words << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains(c + ": the checkpoint was made with text " + text));
  }
}

TEST_CASE("stats looks at a step that the run has", "[cli]") {
  CHECK(Json::parse(run_cli("stats --task regression --steps 5 --json").out).at("step") == 5);
  const auto beyond = run_cli("stats --task regression --steps 5 --step 7");
  CHECK(beyond.exit_code == 2);
  CHECK_THAT(beyond.err, Catch::Contains("--step 7: the run has 5 steps"));
}

TEST_CASE("integers on the command line are decimal and in range", "[cli]") {
  for (const char* seed : {"010", "-1", "''", "18446744073709551616", "0x10", "+1", "1e3", "' 1'", "1.0", "-0"}) {
    for (const std::string command :
         {"train --task classifier --steps 1 --quiet --seed ", "random --bits 8 --count 1 --seed "}) {
      const auto result = run_cli(command + seed);
      INFO(command << seed);
      CHECK(result.exit_code == 2);
      CHECK_THAT(result.err, Catch::Contains("--seed"));
    }
  }
  const auto message = run_cli("random --bits 8 --count 1 --seed 010");
  CHECK_THAT(message.err, Catch::Contains("expected a decimal integer from 0 to 18446744073709551615"));
  CHECK(run_cli("random --bits 8 --count 1 --seed 18446744073709551615").exit_code == 0);
  for (const char* rest : {"--threads 010", "--steps 0x10", "--steps -5", "--trace-every 01"}) {
    const auto result = run_cli(std::string("train --task classifier --quiet ") + rest);
    INFO(rest);
    CHECK(result.exit_code == 2);
    CHECK(result.err.size() < 100);  // a range of doubles takes 300 digits
  }
  for (const char* shard : {"01/2", "1/02", "-1/2", "1/18446744073709551617", "1/", "/2", "1", " 1/2", "1/2x"})
    CHECK(run_cli(std::string("sweep run quick --dry-run --shard '") + shard + "'").exit_code == 2);
}

TEST_CASE("--set knows every field of a recipe", "[cli]") {
  const auto digest = [](const std::string& rest) {
    const auto run = run_cli("train --task lm --set width=32 --set ffn=32 --recipe mxfp4 --steps 2 -q --json " + rest);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    return Json::parse(run.out).at("digest");
  };
  const auto plain = digest("");
  // Kinds qk and pv in FP4, so that what is done to keys can be seen.
  const std::string attention = R"( --set 'recipe.layers=[{"kind":"qk","recipe":"mxfp4"}]')";
  for (const auto& [bare, of_recipe, besides] : {std::array<std::string, 3>{"sparse=2:4", "recipe.sparse=2:4", ""},
                                                 {"center_keys=true", "recipe.center_keys=true", attention}}) {
    INFO(bare);
    const auto changed = digest("--set " + bare + besides);
    CHECK(changed == digest("--set " + of_recipe + besides));
    CHECK(changed != digest(besides));
    CHECK(changed != plain);
  }
  const auto near = run_cli("train --task lm --recipe mxfp4 --set weight=1");
  CHECK(near.exit_code == 2);
  CHECK_THAT(near.err, Catch::Contains("did you mean 'weights'?"));
  const auto wrong = run_cli("train --task lm --recipe mxfp4 --set qqqqzz=1");  // near none: all are named
  CHECK(wrong.exit_code == 2);
  for (const char* word : {"center_keys", "weights", "fprop", "phases"}) CHECK_THAT(wrong.err, Catch::Contains(word));
}

TEST_CASE("a training whose examples fit no machine is refused at once", "[cli]") {
  const TemporaryFolder folder;
  for (const char* task : {"regression", "classifier", "diffusion", "recommender", "lm"}) {
    const auto result =
        run_cli(std::string("train --quiet --steps 1000000000 --task ") + task + " --out " + (folder / "run.json"));
    INFO(task << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains("1000000000 steps x ") && Catch::Contains("examples; accepted: up to"));
    CHECK(entries(folder) == 0);
  }
#ifdef __linux__
  // 1e7 steps of 128 examples, each of 128 + 64 numbers and its index: 1.28e9 * 772 bytes.
  const auto large = run_cli("train --quiet --steps 10000000 --task regression");
  CHECK(large.exit_code == 2);
  CHECK_THAT(large.err, Catch::Contains("1280000000 examples need 988 GB of memory; this machine has "));
#endif
}

TEST_CASE("what is given twice and what a task does not read are refused by name", "[cli]") {
  const auto refused = [](const std::string& rest, const std::string& text) {
    const auto result = run_cli("train --task classifier --steps 3 --quiet " + rest);
    INFO(rest << "\n" << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, Catch::Contains(text));
  };
  refused("--set steps=5", "--set steps=5: given twice: train.steps");
  refused("--set lr=.1 --set lr=.2", "--set lr=.2: given twice: train.lr");
  refused("--set lr=.1 --set train.lr=.1", "--set train.lr=.1: given twice: train.lr");
  refused("--set '*.*.rounding=stochastic' --set all.*.rounding=nearest_even", "given twice: recipe.all.*.rounding");
  refused("--images a --set images=b", "given twice: task.images");
  refused("--text F", "--text: task classifier does not read it; accepted with: --task lm");
  const auto lm = run_cli("train --task lm --steps 1 --quiet --labels F");
  CHECK(lm.exit_code == 2);
  CHECK_THAT(lm.err, Catch::Contains("--labels: task lm does not read it; accepted with: --task classifier"));
}
