#include "src/threads/in_order.h"

#include <tbb/concurrent_queue.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "src/threads/float_environment.h"
#include "src/threads/parallel.h"

namespace fp4 {

namespace {

struct Band {
  int64_t index = 0;
  int worker = 0;
};

// The lowest band that failed, and how. Bands below it are still handed on.
class FirstFailure {
 public:
  explicit FirstFailure(int64_t count) : at_(count), count_(count) {}

  bool any() const {
    const std::lock_guard lock(mutex_);
    return at_ < count_;
  }
  // Runs step(band), unless this band or a lower one has failed.
  void guard(const Band& band, const BandStep& step) {
    {
      const std::lock_guard lock(mutex_);
      if (at_ <= band.index) return;
    }
    try {
      const DefaultFloatEnvironment floats;
      step(band.index, band.worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (at_ <= band.index) return;
      at_ = band.index;
      failure_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  mutable std::mutex mutex_;
  int64_t at_, count_;
  std::exception_ptr failure_;
};

void one_by_one(int64_t count, const BandStep& fetch, const BandStep& work, const std::vector<BandStep>& give) {
  const DefaultFloatEnvironment floats;
  for (int64_t i = 0; i < count; ++i) {
    fetch(i, 0);
    work(i, 0);
    for (const BandStep& step : give) step(i, 0);
  }
}

}  // namespace

void in_order(int64_t count, int threads, const BandStep& fetch, const BandStep& work, std::vector<BandStep> give) {
  const int crew =
      std::min(count < threads ? static_cast<int>(count) : threads, tbb::this_task_arena::max_concurrency());
  // oneTBB ends the process where it is refused a thread.
  if (crew <= 1 || threads_available(crew) < crew) return one_by_one(count, fetch, work, give);

  FirstFailure failure(count);
  tbb::concurrent_queue<int> idle;  // workers: as many bands are under way at once
  for (int worker = 0; worker < crew; ++worker) idle.push(worker);
  int64_t next = 0;
  const auto begin = [&](tbb::flow_control& control) -> Band {
    Band band{next, 0};
    if (next >= count || failure.any() || !idle.try_pop(band.worker)) {
      control.stop();
      return {};
    }
    ++next;
    failure.guard(band, fetch);
    return band;
  };
  const auto step_of = [&](const BandStep& step) {
    return [&failure, &step](Band band) {
      failure.guard(band, step);
      return band;
    };
  };
  const auto serial = tbb::filter_mode::serial_in_order;
  tbb::filter<void, Band> chain = tbb::make_filter<void, Band>(serial, begin) &
                                  tbb::make_filter<Band, Band>(tbb::filter_mode::parallel, step_of(work));
  for (const BandStep& step : give) chain = chain & tbb::make_filter<Band, Band>(serial, step_of(step));
  const auto end = [&](Band band) { idle.push(band.worker); };
  tbb::parallel_pipeline(static_cast<size_t>(crew), chain & tbb::make_filter<Band, void>(serial, end));
  failure.rethrow();
}

}  // namespace fp4
