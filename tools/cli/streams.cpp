// See streams.h. Nothing here allocates: it is called when memory is short.
#include "tools/cli/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "src/files/temporaries.h"

namespace fp4::tools {

[[noreturn]] static void end_without_abort() noexcept {
  say_text("fp4sim: ");
  try {
    const std::exception_ptr reason = std::current_exception();
    if (reason) std::rethrow_exception(reason);
    say_text("ended without a reason\n");
  } catch (const std::bad_alloc&) {
    say_text("out of memory\n");
  } catch (const std::exception& error) {
    say_text(error.what());
    say_text("\n");
  } catch (...) {
    say_text("an unknown exception\n");
  }
  remove_temporaries();
  ::_exit(1);
}

void prepare_end() noexcept {
  std::set_terminate(end_without_abort);
  std::atexit(remove_temporaries);
}

void prepare_streams() noexcept {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one, as those below it are open.
    [[maybe_unused]] const int opened = ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void say_text(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

Flushed flush_results() noexcept {
  const bool failed = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed) return Flushed::all;
  pollfd reader = {STDOUT_FILENO, POLLOUT,
                   0};  // an earlier write has failed: whether its reader is gone is asked again
  if (errno == EPIPE || (::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0)) return Flushed::reader_gone;
  say_text("fp4sim: standard output: ");
  say_text(errno != 0 ? std::strerror(errno) : "writing failed");
  say_text("\n");
  return Flushed::failed;
}

}  // namespace fp4::tools
