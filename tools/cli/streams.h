// Decides: what happens when a standard stream is closed, full or gone. Messages on stderr are a courtesy: their loss
// never ends a command (a sweep whose log disk is full goes on). Results on stdout are not: their loss is exit code 1.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace fp4::tools {

/// A descriptor 0, 1 or 2 that is closed is opened on /dev/null, the wrong way round: reads and writes fail as before,
/// but no result file gets the number of stderr and with it the messages. A write past a limit (SIGXFSZ) or to a reader
/// that has gone (SIGPIPE) becomes an error of that write.
void prepare_streams() noexcept;

/// Makes one line and exit code 1 of what would be an abort, and leaves no temporary file: memory that runs out inside
/// a destructor (that of a JSON value allocates), and OpenMP's own exit() where the system refuses it a thread.
void prepare_end() noexcept;

/// Text on stderr; a failure is ignored.
void say_text(std::string_view text) noexcept;

/// fmt::print on stderr that cannot throw, also without memory.
template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) noexcept {
  try {
    say_text(fmt::format(format, std::forward<Values>(values)...));
  } catch (...) {
    say_text("fp4sim: out of memory for a message\n");
  }
}

/// Whether everything printed so far has left for stdout. `failed`: one line on stderr says why not; `reader_gone`
/// (`fp4sim list | head`) is quiet.
enum class Flushed { all, reader_gone, failed };
Flushed flush_results() noexcept;

/// `-` as an input file, which whatever reads by place can open (stdin_file.cpp).
/// `word`, or for "-" the path of a file with the bytes of standard input, removed when the process ends. The extension
/// follows the first bytes: .npy, .npz, .gguf, .safetensors, else .bin (raw numbers: --dtype and --shape say which).
/// `place` opens messages. Throws Error when standard input is a terminal or cannot be read, or nothing can be written.
std::string input_path(const std::string& word, const std::string& place);

}  // namespace fp4::tools
