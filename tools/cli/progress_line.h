// Progress of every long command, on standard error. A terminal shows one line that is drawn four times a second, also
// while nothing is reported, and never wraps; a pipe or file gets a plain line at each tenth of the work and each
// minute. The time left is what is left divided by the rate that is shown, and runs down between two reports.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "src/threads/progress.h"

namespace fp4::tools {

struct ProgressState {
  double done = 0;  // work in any unit: of it are the bar, the rate and the time left
  double all = 0;
  std::string count;  // "12/40"
  std::string more;   // "loss 2.3142": cut where the line ends
};

class ProgressLine {
 public:
  using Clock = std::chrono::steady_clock;

  /// Work per second as text: "120 steps/s".
  using Rate = std::function<std::string(double per_second)>;

  /// quiet: nothing is written. silent_for: seconds during which a short command writes nothing.
  explicit ProgressLine(bool quiet, Rate rate, double silent_for = 0);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void update(ProgressState state);
  /// Of things that are counted: "12/40".
  void count(int64_t done, int64_t all, const std::string& more = "");
  /// Ends the line that is being drawn: what is written next stands on its own. The next update begins anew.
  void finish();
  /// The work of another stage: its rate and time left owe nothing to what went before.
  void restart();
  double seconds() const;  // since the start of the work

 private:
  struct Sample {
    double seconds, done;
  };
  std::string text(double now, size_t width) const;
  void draw(double now);
  void tick();

  bool quiet_, terminal_;
  Rate rate_text_;
  double silent_for_;
  Clock::time_point begin_ = Clock::now();
  mutable std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false, open_ = false, has_state_ = false;
  ProgressState state_;
  std::deque<Sample> samples_ = {{0, 0}};  // of the last half minute, at least 16
  double rate_ = 0, updated_ = 0, drawn_ = -1;
  int tenth_ = -1;
  std::thread ticker_;  // on a terminal
};

/// Bytes of files: "3.1 of 8.0 MB  120 MB/s"; a command of less than two seconds stays silent.
class ByteProgress {
 public:
  /// As src/threads/progress.h calls it.
  void show(uint64_t done, uint64_t all, const std::string& more);
  Progress progress() {
    return [this](uint64_t done, uint64_t all, const std::string& more) { show(done, all, more); };
  }

 private:
  ProgressLine line_{false, megabytes_per_second, 2};
  static std::string megabytes_per_second(double rate);
};

/// The line of a long command as text, for `width` columns: "[####....] 12/40  3.1 runs/s  9.0 s left  loss 2.31".
std::string progress_text(const ProgressState& state, const std::string& rate, double left, size_t width);

}  // namespace fp4::tools
