// Workers take the next job of the sorted list by one atomic counter (greedy longest-first scheduling) and leave their
// results in one list; whoever finds nobody writing commits all that is there, so a slow disk costs commits, not runs.
#include "sweeps/engine/run.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "src/error.h"

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
    return error.exit_code == 1 ? error.what() : "";
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
    const auto more = static_cast<size_t>(std::max(1, options_.jobs)) - 1;
    std::vector<std::thread> workers;
    try {
      workers.reserve(more);
      while (workers.size() < more && !stopping()) workers.emplace_back([this] { work(); });
    } catch (const std::exception&) {
      // A machine that gives no further thread gives a slower sweep: the calling thread works too.
    }
    work();
    for (std::thread& worker : workers) worker.join();
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
          if (attempt == 2) throw Error(could_not_run(job, reason), 1);
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
    size_t waiting = 0;
    {
      const std::lock_guard lock(handing_in_);
      pending_.push_back(std::move(finished));
      waiting = pending_.size();
    }
    const bool crowded = waiting > 16 * static_cast<size_t>(std::max(1, options_.jobs));
    do {
      std::unique_lock writer(writing_, std::defer_lock);
      if (crowded) writer.lock();
      if (!writer && !writer.try_lock()) return;
      for (std::vector<Finished> batch = take(); !batch.empty(); batch = take()) commit(batch);
    } while (any_pending());
  }

  std::vector<Finished> take() {
    const std::lock_guard lock(handing_in_);
    const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(pending_.size(), 64));
    std::vector<Finished> batch(std::make_move_iterator(pending_.begin()), std::make_move_iterator(end));
    pending_.erase(pending_.begin(), end);
    return batch;
  }

  bool any_pending() {
    const std::lock_guard lock(handing_in_);
    return !pending_.empty();
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
  std::mutex trying_again_, handing_in_, writing_, failing_;
  std::vector<Finished> pending_;  // under handing_in_
  std::exception_ptr failure_;     // under failing_
  Progress progress_;              // under writing_
};

}  // namespace

Progress execute(const std::vector<Job>& jobs, const Simulator& simulator, Store& store, const EngineOptions& options) {
  return Engine(jobs, simulator, store, options).run();
}

}  // namespace fp4::sweeps
