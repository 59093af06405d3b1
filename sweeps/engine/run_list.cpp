// Workers, tasks of oneTBB in an arena of --jobs threads, take the next job of the sorted list by one atomic counter
// (greedy longest-first scheduling) and leave their results in one queue; whoever finds nobody writing commits all that
// is there, so a slow disk costs commits, not runs.
#include "sweeps/engine/run_list.h"

#include <tbb/concurrent_queue.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>

#include "src/text/error.h"
#include "src/threads/parallel.h"

namespace fp4::sweeps {

void sort_jobs(std::vector<Job>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    if (a.config->static_cost != b.config->static_cost) return a.config->static_cost > b.config->static_cost;
    const auto place = [](const Job& job) {
      return std::make_tuple(job.seed, job.role != Role::reference, job.config->hash);
    };
    return place(a) < place(b);
  });
}

std::vector<Job> shard_of(const std::vector<Job>& jobs, size_t index, size_t count) {
  std::vector<Job> share;
  for (size_t i = index - 1; i < jobs.size(); i += count) share.push_back(jobs[i]);
  return share;
}

namespace {

struct Finished {
  RunRecord record;
  double cost = 0;
};

// Why the exception being handled says nothing about the run: memory, threads, disks, devices. "" when it would come
// again on another machine: bad input, or a bug.
std::string environment_reason() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::system_error& error) {
    return error.what();
  } catch (const Error& error) {
    return error.kind == Error::failed ? error.what() : "";
  } catch (...) {
    return "";
  }
}

class Engine {
 public:
  Engine(const std::vector<Job>& jobs, const Simulator& simulator, Store& store, const EngineOptions& options)
      : jobs_(jobs), simulator_(simulator), store_(store), options_(options) {
    progress_.total = jobs.size();
    for (const Job& job : jobs) progress_.cost_total += job.config->static_cost;
  }

  Progress run() {
    // A machine that gives no further thread gives a slower sweep; oneTBB would end the process.
    const int crew = threads_available(
        std::max(1, static_cast<int>(std::min<size_t>(static_cast<size_t>(std::max(1, options_.jobs)), jobs_.size()))));
    const tbb::global_control as_many_as_asked(tbb::global_control::max_allowed_parallelism,
                                               static_cast<size_t>(std::max(crew, threads_of_machine())));
    tbb::task_arena(crew).execute([&] {
      tbb::task_group workers;
      for (int worker = 1; worker < crew; ++worker) workers.run([this] { work(); });
      work();
      workers.wait();
    });
    if (failure_) std::rethrow_exception(failure_);
    if (!stopping()) remove_trunks();
    progress_.last = nullptr;
    progress_.seconds = seconds();
    return progress_;
  }

 private:
  // What branches shared (tasks/run.h); nobody asks for it again.
  void remove_trunks() const {
    std::error_code none;
    if (!has_checkpoints()) return;
    for (const auto& entry : std::filesystem::directory_iterator(options_.checkpoints, none))
      if (entry.path().filename().string().starts_with("trunk-")) std::filesystem::remove(entry.path(), none);
  }

  bool stopping() const { return halted_ || (options_.stop != nullptr && *options_.stop); }

  // Keeps the first failure and stops the others.
  void fail(const std::exception_ptr& failure) {
    const std::lock_guard lock(failing_);
    if (!failure_) failure_ = failure;
    halted_ = true;
  }

  void work() {
    try {
      while (!stopping()) {
        const size_t index = next_.fetch_add(1);
        if (index >= jobs_.size()) return;
        if (options_.stop_after > 0 && index >= options_.stop_after) halted_ = true;
        if (halted_) return;
        if (std::unique_ptr<RunRecord> record = run_job(jobs_[index])) {
          hand_in({std::move(*record), jobs_[index].config->static_cost});
        }
      }
    } catch (...) {
      fail(std::current_exception());
    }
  }

  bool has_checkpoints() const { return !options_.checkpoints.empty() && simulator_.run_with_checkpoints; }
  std::string checkpoint_of(const std::string& hash, uint64_t seed) const {
    return (options_.checkpoints / (hash + "-" + std::to_string(seed) + ".checkpoint")).string();
  }

  // Null when the run was cut short by stopping: it will be done again. A run that the machine fails is tried once
  // more, while no other is being tried again; the second time the sweep ends, and what is stored are results only.
  std::unique_ptr<RunRecord> run_job(const Job& job) {
    std::unique_lock alone(trying_again_, std::defer_lock);
    for (int attempt = 1;; ++attempt) {
      auto record = std::make_unique<RunRecord>();
      try {
        const Json config = Json::parse(job.config->config);
        const auto quit = [this] { return stopping(); };
        *record = has_checkpoints() ? simulator_.run_with_checkpoints(config, job.seed, quit,
                                                                      checkpoint_of(job.config->hash, job.seed),
                                                                      options_.checkpoint_every)
                                    : simulator_.run(config, job.seed, quit);
        if (record->status == Status::stopped) return nullptr;
      } catch (const std::exception& error) {
        const std::string reason = environment_reason();
        if (!reason.empty()) {
          if (stopping()) return nullptr;
          if (attempt == 2) throw Error(could_not_run(job, reason), Error::failed);
          alone.lock();
          continue;
        }
        *record = {};
        record->status = Status::failed;
        record->message = error.what();
      }
      record->hash = job.config->hash;
      record->task = job.config->task;
      record->seed = job.seed;
      record->role = job.role;
      return record;
    }
  }

  std::string could_not_run(const Job& job, const std::string& reason) const {
    return "configuration " + job.config->hash + ", seed " + std::to_string(job.seed) + " could not be run: " + reason +
           ". Nothing is stored for it; every finished run is. Start the same command again" +
           (options_.jobs > 1 ? ", with fewer --jobs if memory is short" : "");
  }

  // One thread writes at a time. Whoever cannot write leaves its result to the one that does, which looks again after
  // it has let go; where the disk is slower than the runs, workers wait, and memory stays bounded.
  void hand_in(Finished finished) {
    pending_.push(std::move(finished));
    const bool crowded = pending_.unsafe_size() > 16 * static_cast<size_t>(std::max(1, options_.jobs));
    do {
      std::unique_lock writer(writing_, std::defer_lock);
      if (crowded) writer.lock();
      if (!writer && !writer.try_lock()) return;
      for (std::vector<Finished> batch = take(); !batch.empty(); batch = take()) commit(batch);
    } while (!pending_.empty());
  }

  std::vector<Finished> take() {
    std::vector<Finished> batch;
    Finished next;
    while (batch.size() < 64 && pending_.try_pop(next)) batch.push_back(std::move(next));
    return batch;
  }

  void commit(const std::vector<Finished>& batch) {
    std::vector<RunRecord> runs;
    for (const Finished& finished : batch) runs.push_back(finished.record);
    try {
      store_.insert(runs);
    } catch (...) {
      // A full disk may have room for one run where it had none for many: nothing that fits is given up.
      fail(std::current_exception());
      for (const RunRecord& run : runs) {
        try {
          store_.insert({&run, 1});
        } catch (const Error&) {
        }
      }
      return;
    }
    for (const Finished& finished : batch) {
      ++progress_.done;
      progress_.cost_done += finished.cost;
      progress_.diverged += finished.record.status == Status::diverged;
      progress_.failed += finished.record.status == Status::failed;
      progress_.last = &finished.record;
      std::error_code none;
      if (has_checkpoints()) std::filesystem::remove(checkpoint_of(finished.record.hash, finished.record.seed), none);
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
  std::mutex trying_again_, writing_, failing_;
  tbb::concurrent_queue<Finished> pending_;
  std::exception_ptr failure_;  // under failing_
  Progress progress_;           // under writing_
};

}  // namespace

Progress execute(const std::vector<Job>& jobs, const Simulator& simulator, Store& store, const EngineOptions& options) {
  return Engine(jobs, simulator, store, options).run();
}

}  // namespace fp4::sweeps
