// The engine: a list of independent single-threaded runs, shared out over threads, largest first by static cost, every
// finished run committed at once. Stopping it in any way loses at most the runs in flight, and of those that write
// checkpoints what came after the last one.
// A run that throws because of its configuration is a row with the status `failed`, and the sweep goes on. One that the
// machine fails (no memory, no thread, an unreadable file: std::bad_alloc, std::system_error, Error with exit code 1)
// is tried once more and is never a row.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <vector>

#include "sweeps/engine/store.h"
#include "sweeps/training.h"

namespace fp4::sweeps {

struct Job {
  const ConfigRecord* config = nullptr;
  uint64_t seed = 0;
  Role role = Role::run;
};

struct Progress {
  size_t done = 0;  // of this call
  size_t total = 0;
  size_t diverged = 0;
  size_t failed = 0;
  double cost_done = 0;  // static cost, for an ETA that does not believe that all runs are alike
  double cost_total = 0;
  double seconds = 0;               // since the start, by the steady clock
  const RunRecord* last = nullptr;  // the run just committed; null in the closing call
};

struct EngineOptions {
  int jobs = 1;
  const std::atomic<bool>* stop = nullptr;             // set by a signal: start nothing more, drop what is in flight
  std::function<void(const Progress&)> progress = {};  // after each commit, one call at a time
  std::filesystem::path checkpoints = {};              // folder for checkpoints of runs in flight; none: no checkpoints
  double checkpoint_every = 300;                       // s
  size_t stop_after = 0;                               // test hook: behave as if stopped once so many runs have begun
};

// Largest static cost first, then by seed, references before others, by hash: a fixed order everywhere, in which runs
// that make their data from one seed stand together and share it (sim/train/example_pool.h).
void sort_jobs(std::vector<Job>& jobs);

// Shard i of n (1-based) of a sorted list, dealt round-robin: equal load, and the same on every machine.
std::vector<Job> shard_of(const std::vector<Job>& jobs, size_t index, size_t count);

// Runs them all (already sorted, none of them in the store). Returns the closing state; throws what the store throws
// (full disk, digest conflict) and Error when the machine fails a run twice, after the workers have stopped and
// everything that could be written is written.
Progress execute(const std::vector<Job>& jobs, const Simulator& simulator, Store& store, const EngineOptions& options);

}  // namespace fp4::sweeps
