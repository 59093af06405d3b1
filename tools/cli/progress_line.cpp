#include "tools/cli/progress_line.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {
namespace {

constexpr double draw_every = 0.25, line_every = 60, window = 30;

bool can_rewrite_lines() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

// One column stays free: a line that fills all of them makes some terminals scroll.
size_t line_width() {
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? std::clamp<size_t>(size.ws_col, 20, 120) : 80) - 1;
}

}  // namespace

std::string progress_text(const ProgressState& state, const std::string& rate, double left, size_t width) {
  const double share = state.all > 0 ? std::clamp(state.done / state.all, 0.0, 1.0) : 0;
  const size_t bar = width < 70 ? 10 : 24, filled = static_cast<size_t>(share * static_cast<double>(bar));
  std::string line = fmt::format("[{}{}] {}", std::string(filled, '#'), std::string(bar - filled, '.'), state.count);
  for (const std::string& part : {rate, left >= 0 ? duration(left) + " left" : std::string(), printable(state.more)}) {
    if (!part.empty()) line += "  " + part;
  }
  if (line.size() > width) line.resize(width);
  return line;
}

ProgressLine::ProgressLine(bool quiet, Rate rate, double silent_for)
    : quiet_(quiet), terminal_(can_rewrite_lines()), rate_text_(std::move(rate)), silent_for_(silent_for) {
  if (quiet_ || !terminal_) return;
  try {
    ticker_ = std::thread([this] { tick(); });
  } catch (const std::system_error&) {  // no thread to be had: then the line is drawn by reports alone
  }
}

ProgressLine::~ProgressLine() {
  finish();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_all();
  if (ticker_.joinable()) ticker_.join();
}

double ProgressLine::seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

void ProgressLine::restart() {
  finish();
  const std::lock_guard lock(mutex_);
  begin_ = Clock::now();
  samples_ = {{0, 0}};
  rate_ = updated_ = 0;
  drawn_ = -1;
  tenth_ = -1;
}

void ProgressLine::update(ProgressState state) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  const double now = seconds();
  samples_.push_back({now, state.done});
  while (samples_.size() > 16 && now - samples_[1].seconds > window) samples_.pop_front();
  const Sample& first = samples_.front();
  rate_ = now > first.seconds ? (state.done - first.done) / (now - first.seconds) : 0;
  updated_ = now;
  state_ = std::move(state);
  has_state_ = true;
  const bool is_last = state_.done >= state_.all;
  if (now < silent_for_ && !(is_last && open_)) return;
  const int tenth = state_.all > 0 ? static_cast<int>(state_.done * 10 / state_.all) : 0;
  const bool is_due = terminal_ ? now - drawn_ >= draw_every : tenth != tenth_ || now - drawn_ >= line_every;
  if (!is_last && drawn_ >= 0 && !is_due) return;
  tenth_ = tenth;
  draw(now);
}

void ProgressLine::count(int64_t done, int64_t all, const std::string& more) {
  update({.done = static_cast<double>(done),
          .all = static_cast<double>(all),
          .count = fmt::format("{}/{}", done, all),
          .more = more});
}

void ProgressLine::finish() {
  const std::lock_guard lock(mutex_);
  has_state_ = false;
  if (open_) say("\n");
  open_ = false;
}

// Done work has no time left: the line says how long it took.
std::string ProgressLine::text(double now, size_t width) const {
  if (state_.done >= state_.all) {
    ProgressState last = state_;
    last.more = fmt::format("in {}{}{}", duration(now), last.more.empty() ? "" : "  ", last.more);
    return progress_text(last, rate_text_(now > 0 ? state_.done / now : 0), -1, width);
  }
  const double left = rate_ > 0 ? std::max(0.0, (state_.all - state_.done) / rate_ - (now - updated_)) : INFINITY;
  return progress_text(state_, rate_ > 0 ? rate_text_(rate_) : "", rate_ > 0 ? left : -1, width);
}

void ProgressLine::draw(double now) {
  drawn_ = now;
  if (terminal_) {
    say("\r{}\033[K", text(now, line_width()));
    open_ = true;
  } else {
    say("{}\n", text(now, 200));
  }
}

void ByteProgress::show(uint64_t bytes_done, uint64_t bytes, const std::string& more) {
  const double done = static_cast<double>(bytes_done), all = static_cast<double>(bytes);
  line_.update(
      {.done = done, .all = all, .count = fmt::format("{:.1f} of {:.1f} MB", done / 1e6, all / 1e6), .more = more});
}

std::string ByteProgress::megabytes_per_second(double rate) { return fmt::format("{:.3g} MB/s", rate / 1e6); }

void ProgressLine::tick() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    ends_.wait_for(lock, std::chrono::duration<double>(draw_every));
    const double now = seconds();
    if (!ended_ && has_state_ && state_.done < state_.all && now >= silent_for_ && now - drawn_ >= 0.9 * draw_every)
      draw(now);
  }
}

}  // namespace fp4::tools
