// Workers take the next job of the sorted list by one atomic counter (greedy longest-first scheduling) and hand results
// to a bounded queue; the writer drains whatever has queued up into one commit, so a slow disk costs commits, not runs.
#include "sweeps/run.h"

#include <tbb/concurrent_queue.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>

#include "src/error.h"

namespace fp4::sweeps {

void sort_jobs(std::vector<Job>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    if (a.config->static_cost != b.config->static_cost) return a.config->static_cost > b.config->static_cost;
    const bool a_first = a.role == Role::reference;
    const bool b_first = b.role == Role::reference;
    if (a_first != b_first) return a_first;
    return std::tie(a.config->hash, a.seed) < std::tie(b.config->hash, b.seed);
  });
}

std::vector<Job> shard_of(const std::vector<Job>& jobs, size_t index, size_t count) {
  std::vector<Job> share;
  for (size_t i = index - 1; i < jobs.size(); i += count) share.push_back(jobs[i]);
  return share;
}

namespace {

// What a worker hands to the writer; an empty one says that all workers have ended.
struct Finished {
  std::unique_ptr<RunRecord> record;
  double cost = 0;
};

class Engine {
 public:
  Engine(const std::vector<Job>& jobs, const Simulator& simulator, Store& store, const EngineOptions& options)
      : jobs_(jobs), simulator_(simulator), store_(store), options_(options) {
    progress_.total = jobs.size();
    for (const Job& job : jobs) progress_.cost_total += job.config->static_cost;
    queue_.set_capacity(16 * std::max(1, options.jobs));
  }

  Progress run() {
    std::thread writer([this] { write(); });
    // The limit is for this call alone, and allows more workers than cores where a user asks for it.
    const auto workers = static_cast<size_t>(std::max(1, options_.jobs));
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers);
    tbb::task_arena arena(static_cast<int>(workers));
    arena.execute([&] {
      tbb::task_group group;
      for (size_t i = 0; i < workers; ++i) group.run([this] { work(); });
      group.wait();
    });
    queue_.push({});
    writer.join();
    if (failure_) std::rethrow_exception(failure_);
    progress_.last = nullptr;
    progress_.seconds = seconds();
    return progress_;
  }

 private:
  bool stopping() const { return halted_ || (options_.stop != nullptr && *options_.stop); }

  void work() {
    while (!stopping()) {
      const size_t index = next_.fetch_add(1);
      if (index >= jobs_.size()) return;
      if (options_.stop_after > 0 && index >= options_.stop_after) halted_ = true;
      if (halted_) return;
      if (std::unique_ptr<RunRecord> record = run_job(jobs_[index])) {
        queue_.push({std::move(record), jobs_[index].config->static_cost});
      }
    }
  }

  // Null when the run was cut short by stopping: it will be done again.
  std::unique_ptr<RunRecord> run_job(const Job& job) {
    auto record = std::make_unique<RunRecord>();
    try {
      const Json config = Json::parse(job.config->config);
      *record = simulator_.run(config, job.seed, [this] { return stopping(); });
      if (record->status == Status::stopped) return nullptr;
    } catch (const std::exception& error) {
      *record = {};
      record->status = Status::failed;
      record->message = error.what();
    }
    record->hash = job.config->hash;
    record->seed = job.seed;
    record->role = job.role;
    return record;
  }

  void write() {
    std::vector<RunRecord> batch;
    std::vector<double> costs;
    for (bool open = true; open;) {
      Finished item;
      queue_.pop(item);
      do {
        if (!item.record) {
          open = false;
          break;
        }
        batch.push_back(std::move(*item.record));
        costs.push_back(item.cost);
      } while (batch.size() < 64 && queue_.try_pop(item));
      commit(batch, costs);
      batch.clear();
      costs.clear();
    }
  }

  void commit(const std::vector<RunRecord>& batch, const std::vector<double>& costs) {
    if (batch.empty()) return;
    try {
      store_.insert(batch);
    } catch (...) {
      // A full disk may have room for one run where it had none for many: nothing that fits is given up.
      if (!failure_) failure_ = std::current_exception();
      halted_ = true;
      for (const RunRecord& run : batch) {
        try {
          store_.insert({&run, 1});
        } catch (const Error&) {
        }
      }
      return;
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      ++progress_.done;
      progress_.cost_done += costs[i];
      progress_.diverged += batch[i].status == Status::diverged;
      progress_.failed += batch[i].status == Status::failed;
      progress_.last = &batch[i];
      progress_.seconds = seconds();
      if (options_.progress) options_.progress(progress_);
    }
  }

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  const std::vector<Job>& jobs_;
  const Simulator& simulator_;
  Store& store_;
  const EngineOptions& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> halted_ = false;
  tbb::concurrent_bounded_queue<Finished> queue_;
  std::exception_ptr failure_;
  Progress progress_;
};

}  // namespace

Progress execute(const std::vector<Job>& jobs, const Simulator& simulator, Store& store, const EngineOptions& options) {
  return Engine(jobs, simulator, store, options).run();
}

}  // namespace fp4::sweeps
