// What happens when one call of a command fails: the Nth malloc, write, fsync, rename, open or pthread_create, from the
// first to the last (tests/support/preload.cpp). A trial survives when the command ends with exit code 0 and the right
// result, or with 1 or 2, one line of reason and no temporary file, and then succeeds when it is run again. Everything
// else is lost: a signal, a hang, a wrong or half result, a result that the second run does not give.
// And when it is killed (-9) in front of the Nth call that changes a file: what it leaves is never taken for a whole
// result, and the same command then goes on to the right one.
// tests/faults.md holds the tables that this prints.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/files/sha256.h"
#include "sweeps/engine/store.h"
#include "tests/support/support.h"
#include "tests/support/workshop.h"

namespace fs = std::filesystem;
using namespace fp4;
using test::RunResult;
using test::TemporaryFolder;
using Json = nlohmann::json;

namespace {

std::string preload_library() {
  const char* build = std::getenv("FP4SIM_BUILD");
  return std::string(build != nullptr ? build : "build") + "/tests/libfp4_preload.so";
}

// In `folder`, so that no result holds a path that differs between trials. Five minutes are a hang: on a busy machine
// a command of half a second has taken one.
RunResult run_in(const fs::path& folder, const std::string& words, const std::string& environment = "") {
  const std::string preload =
      environment.empty() ? "" : "LD_PRELOAD='" + fs::absolute(preload_library()).string() + "' ";
  return test::run_shell("cd '" + folder.string() + "' && exec timeout -s KILL 300 env " + preload + environment +
                         " '" + fs::absolute(test::fp4sim_path()).string() + "' " + words + "\n");
}

// Every run of a store with its digest; "" when there is no store that opens.
std::string runs_of(const fs::path& folder) {
  std::string all;
  for (const sweeps::RunRecord& run : sweeps::Store::read(folder).runs())
    all += fmt::format("{} {} {} {}\n", run.hash, run.seed, sim::word(run.status), run.digest);
  return all;
}

std::string files_of(const fs::path& folder) {
  std::vector<std::string> lines;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      lines.push_back(entry.path().lexically_relative(folder).string() + " " + sha256_file(entry));
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, "\n"));
}

struct Work {
  const char* name;
  std::string words;
  std::string again;                        // words of the second run
  std::string reads;                        // words of a command that succeeds for the whole result alone; "": none
  void (*prepare)(const fs::path& folder);  // what stands there before
  std::string (*result)(const fs::path& folder);  // what must come out
};

constexpr const char* grid = R"({"name": "tiny", "task": ["regression"], "seeds": 1,
  "train.regression": {"steps": 4, "batch": 8, "curve_points": 2}, "axes": {"recipe": ["mxfp4", "nvfp4"]}})";

void write_grid(const fs::path& folder) { test::write_text(folder / "grid.json", grid); }

// The two shards of the sweep, made once.
void copy_shards(const fs::path& folder) {
  static const TemporaryFolder shards;
  static const bool made = [] {
    write_grid(shards.path());
    for (const char* shard : {"1", "2"})
      if (run_in(shards.path(), fmt::format("sweep run grid.json --quiet --jobs 1 --shard {0}/2 --out {0}", shard))
              .exit_code != 0)
        throw std::runtime_error("a shard failed");
    return true;
  }();
  if (made) fs::copy(shards.path(), folder, fs::copy_options::recursive);
}

void write_matrix(const fs::path& folder) {
  std::vector<float> x(64 * 256);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * 2654435761u >> 8 & 0xffff) - 32768);
  std::string bytes(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));
  test::write_text(folder / "x.bin", bytes);
}

std::string trained(const fs::path& folder) {
  const Json run = Json::parse(test::read_text(folder / "run.json"));
  return run.at("digest").get<std::string>() + run.at("curve").dump() + sha256_file(folder / "c");
}

const std::vector<Work>& works() {
  static const std::string train = "train --task regression --steps 4 --quiet --checkpoint c --out run.json";
  static const std::string quantize = "quantize x.bin --dtype f32 --shape 64x256 --spec nvfp4 --threads 2 --out out";
  static const std::string golden = "golden make --spec nvfp4 --shape 4x3x512 --accumulators k64_rz,exact --out out";
  static const std::vector<Work> rows = {
      {"sweep", "sweep run grid.json --quiet --jobs 2 --out out",
       "sweep run grid.json --quiet --jobs 2 --retry-failed --out out", "sweep status out --complete", write_grid,
       [](const fs::path& f) { return runs_of(f / "out"); }},
      {"merge", "sweep merge 1 2 --out out", "sweep merge 1 2 --out out", "sweep status out --complete", copy_shards,
       [](const fs::path& f) { return runs_of(f / "out"); }},
      {"quantize", quantize, quantize + " --force", "dequantize out --out y.npy", write_matrix,
       [](const fs::path& f) {
         fs::remove(f / "out/manifest.json");  // names the command, which has --force the second time
         return files_of(f / "out");
       }},
      {"golden", golden, golden + " --force", "golden check out", [](const fs::path&) {},
       [](const fs::path& f) { return files_of(f / "out"); }},
      {"train", train, train + " --force", "", [](const fs::path&) {}, trained}};
  return rows;
}

constexpr const char* kinds[] = {"malloc", "write", "fsync", "rename", "open", "pthread_create"};

bool has_temporaries(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().filename().string().ends_with(".tmp")) return true;
  return false;
}

// "" when the trial survived, otherwise what was lost.
std::string lost_by(const Work& work, const std::string& fault, const std::string& expected) {
  const TemporaryFolder folder;
  work.prepare(folder.path());
  const RunResult first = run_in(folder.path(), work.words, "FP4_FAULT=" + fault);
  try {
    if (first.exit_code == 0) return work.result(folder.path()) == expected ? "" : "exit 0 with another result";
    if (first.exit_code != 1 && first.exit_code != 2)
      return fmt::format("exit code {}: {}", first.exit_code, first.err);
    // Beside them, progress on a slow machine; and OpenMP's own message, where the system refuses it a thread, begins
    // with an empty line.
    const std::vector<std::string> lines = test::lines_of(first.err);
    const auto is_reason = [](const std::string& line) { return !line.starts_with('['); };
    if (std::count_if(lines.begin(), lines.end(), is_reason) != (first.err.starts_with("\nlibgomp") ? 2 : 1))
      return "not one line of reason: " + first.err;
    if (has_temporaries(folder.path())) return "a temporary file is left: " + first.err;
    const RunResult second = run_in(folder.path(), work.again);
    if (second.exit_code != 0) return "the second run failed: " + second.err;
    return work.result(folder.path()) == expected ? "" : "the second run has another result";
  } catch (const std::exception& e) {
    return std::string("the result cannot be read: ") + e.what();
  }
}

// "" when the trial survived a kill.
std::string lost_by_kill(const Work& work, long call, const std::string& expected) {
  const TemporaryFolder folder;
  work.prepare(folder.path());
  const RunResult first = run_in(folder.path(), work.words, fmt::format("FP4_FAULT=change:{}!", call));
  try {
    if (first.exit_code == 0) return work.result(folder.path()) == expected ? "" : "exit 0 with another result";
    if (first.exit_code != 128 + 9) return fmt::format("exit code {}: {}", first.exit_code, first.err);
    const TemporaryFolder copy;  // reading changes nothing, but would forgive the command
    fs::copy(folder.path(), copy.path(), fs::copy_options::recursive);
    if (!work.reads.empty()) {
      const RunResult read = run_in(copy.path(), work.reads);
      if (read.exit_code > 2) return fmt::format("`{}` ends with {}: {}", work.reads, read.exit_code, read.err);
      if (read.exit_code == 0 && work.result(copy.path()) != expected) return "a half result is taken for a whole one";
    }
    const RunResult second = run_in(folder.path(), work.again);
    if (second.exit_code != 0) return "the second run failed: " + second.err;
    if (has_temporaries(folder.path())) return "a temporary file is left after the second run";
    return work.result(folder.path()) == expected ? "" : "the second run has another result";
  } catch (const std::exception& e) {
    return std::string("the result cannot be read: ") + e.what();
  }
}

// At most `most` of 1 .. count, evenly from the first to the last.
std::vector<long> sampled(long count, long most) {
  std::vector<long> calls;
  for (long i = 0; i < std::min(count, most); ++i)
    calls.push_back(count <= most || most == 1 ? i + 1 : 1 + i * (count - 1) / (most - 1));
  return calls;
}

struct Trial {
  std::string kind, fault, lost;
  long kill = 0;  // in front of this call; 0: the call fails
};

// FP4SIM_FAULT_KIND=change: of this kind alone.
bool is_wanted(const std::string& kind) {
  const char* given = std::getenv("FP4SIM_FAULT_KIND");
  return given == nullptr || kind == given;
}

// More samples for a longer look: FP4SIM_FAULT_SAMPLES=100.
long samples(const Work& work) {
  if (const char* given = std::getenv("FP4SIM_FAULT_SAMPLES")) return std::stol(given);
  // A sweep and a training spend most of a second on their signatures.
  return work.name == std::string("sweep") || work.name == std::string("train") ? 5 : 8;
}

// How many calls of a kind the undisturbed command makes.
long count_of(const Work& work, const std::string& kind, std::map<std::string, long>& counts) {
  const TemporaryFolder counted;
  work.prepare(counted.path());
  const RunResult r = run_in(counted.path(), work.words, "FP4_FAULT=" + kind + ":0 FP4_FAULT_COUNT=count");
  INFO(kind << " " << r.err);
  REQUIRE(r.exit_code == 0);
  return counts[kind] = std::stol(test::read_text(counted / "count"));
}

// Every kind of call of one command; prints its part of the table.
void try_faults(const std::string& name) {
  if (!fs::exists(preload_library())) {
    WARN("[test skipped] no " << preload_library());
    return;
  }
  const Work& work = *std::find_if(works().begin(), works().end(), [&](const Work& w) { return w.name == name; });
  const TemporaryFolder whole;
  work.prepare(whole.path());
  REQUIRE(run_in(whole.path(), work.words).exit_code == 0);
  const std::string expected = work.result(whole.path());
  REQUIRE(!expected.empty());
  std::vector<Trial> trials;
  std::map<std::string, long> counts;
  for (const std::string kind : kinds) {
    if (!is_wanted(kind)) continue;
    for (const long call : sampled(count_of(work, kind, counts), samples(work)))
      trials.push_back({kind, fmt::format("{}:{}", kind, call), ""});
    if (kind == "pthread_create" && counts[kind] > 0) trials.push_back({kind, kind + ":1+", ""});
  }
  // A merge and a small quantize are quick enough to be killed in front of most of their changes.
  const long kills = (name == "merge" || name == "quantize" ? 4 : 1) * samples(work);
  if (is_wanted("change"))
    for (const long call : sampled(count_of(work, "change", counts), kills))
      trials.push_back({"change", fmt::format("change:{}!", call), "", call});
  std::atomic<size_t> next = 0;
  const auto worker = [&] {
    for (size_t i = next++; i < trials.size(); i = next++)
      trials[i].lost =
          trials[i].kill > 0 ? lost_by_kill(work, trials[i].kill, expected) : lost_by(work, trials[i].fault, expected);
  };
  std::thread other(worker);
  worker();
  other.join();
  std::string table = "command   call            calls  tried  survived  lost\n";
  for (const auto& [kind, count] : counts) {
    long tried = 0, lost = 0;
    for (const Trial& t : trials) {
      if (t.kind != kind) continue;
      ++tried;
      if (t.lost.empty()) continue;
      ++lost;
      FAIL_CHECK(work.name << " " << t.fault << ": " << t.lost);
    }
    if (tried > 0)
      table +=
          fmt::format("{:<8}  {:<14}  {:>5}  {:>5}  {:>8}  {:>4}\n", work.name, kind, count, tried, tried - lost, lost);
  }
  WARN(table);
}

}  // namespace

TEST_CASE("one failing call of a sweep loses nothing", "[cli]") { try_faults("sweep"); }
TEST_CASE("one failing call of a merge loses nothing", "[cli]") { try_faults("merge"); }
TEST_CASE("one failing call of quantize loses nothing", "[cli]") { try_faults("quantize"); }
TEST_CASE("one failing call of golden loses nothing", "[cli]") { try_faults("golden"); }
TEST_CASE("one failing call of train loses nothing", "[cli]") { try_faults("train"); }
