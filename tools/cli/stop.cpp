#include "tools/cli/stop.h"

#include <csignal>
#include <ctime>

#include "src/files/temporaries.h"

namespace fp4::tools {

namespace {

std::atomic<bool> requested = false;
volatile std::sig_atomic_t signal_number = 0;
timespec first = {};  // when the first signal came

double seconds_since_first() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);  // a handler may call it
  return static_cast<double>(now.tv_sec - first.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - first.tv_nsec);
}

extern "C" void on_stop_signal(int signal) {
  if (requested) {
    if (seconds_since_first() < one_request_s) return;
    remove_temporaries();
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // blocked in its own handler: it ends the process on return
    return;
  }
  signal_number = signal;
  clock_gettime(CLOCK_MONOTONIC, &first);
  requested = true;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup stays in force
  }
}

const std::atomic<bool>& stop_requested() { return requested; }
int stop_exit_code() { return requested ? 128 + signal_number : 0; }

}  // namespace fp4::tools
