// Decides: how Ctrl-C, SIGTERM and SIGHUP end a long command: the first one asks it to stop, and it keeps what it has
// (the runs of a sweep, the checkpoint of a training); one that comes a second later or more ends the process at once.
// `timeout`, Slurm and others send theirs to the process and again to its group: what comes within that second is one
// request.
#pragma once

#include <atomic>

namespace fp4::tools {

inline constexpr double one_request_s = 1;

void catch_stop_signals();
/// Set by the first signal.
const std::atomic<bool>& stop_requested();
/// 128 + number of that signal, as a shell reports it: 130 for Ctrl-C, 143 for SIGTERM; 0 before.
int stop_exit_code();

}  // namespace fp4::tools
