// Text on a terminal: its width, wrapping, what may be shown of foreign bytes.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>

#include "src/text/words.h"
#include "tools/cli/streams.h"
#include "tools/cli/table_print.h"

namespace fp4::tools {

namespace {

constexpr std::size_t kMaximumWidth = 80;
constexpr std::size_t kUnlimited = std::size_t{1} << 20;

}  // namespace

// Every continuation byte of UTF-8 is 10xxxxxx.
std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

bool stdout_has_styles() {
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org: set and not empty
  return stdout_is_terminal() && (no_color == nullptr || *no_color == '\0');
}

std::size_t terminal_width() {
  winsize size = {};
  if (stdout_is_terminal() && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    return std::min<std::size_t>(size.ws_col, kMaximumWidth);
  return kMaximumWidth;
}

std::size_t table_width() {
  winsize size = {};
  if (stdout_is_terminal() && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  if (stdout_is_terminal()) return kMaximumWidth;
  const char* columns = std::getenv("COLUMNS");
  const auto told = columns == nullptr ? std::nullopt : integer_from_text<std::size_t>(columns);
  return told && *told >= 40 ? *told : kUnlimited;
}

std::vector<std::string> wrap_text(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  width = std::max<std::size_t>(width, 1);
  while (!text.empty()) {
    if (text.front() == '\n') {
      lines.emplace_back();
      text.remove_prefix(1);
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \n", 1), text.size());  // a word with the space before it
    std::string_view word = text.substr(0, end);
    text.remove_prefix(end);
    if (display_width(lines.back()) + display_width(word) > width && !lines.back().empty()) lines.emplace_back();
    if (lines.back().empty() && word.front() == ' ' && lines.size() > 1) word.remove_prefix(1);
    while (display_width(word) > width) {
      std::size_t cut = 0, shown = 0;
      while (cut < word.size() && (shown < width || (word[cut] & 0xc0) == 0x80)) shown += (word[cut++] & 0xc0) != 0x80;
      std::size_t mark = word.substr(0, cut).find_last_of(",/|");  // between fields, else within a name
      if (mark == std::string_view::npos || mark == 0) mark = word.substr(0, cut).find_last_of(kTearMarks);
      if (mark != std::string_view::npos && mark > 0) cut = mark + 1;
      lines.back() = word.substr(0, cut);
      word.remove_prefix(cut);
      lines.emplace_back();
    }
    lines.back() += word;
  }
  return lines;
}

// The bytes of the character that `text` begins with; 0 where they are no UTF-8 (Unicode 15, table 3-7).
static std::size_t character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = at(0), second = at(1);
  const std::size_t bytes = first < 0x80   ? 1
                            : first < 0xc2 ? 0
                            : first < 0xe0 ? 2
                            : first < 0xf0 ? 3
                            : first < 0xf5 ? 4
                                           : 0;
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (bytes > 1 && (second < low || second > high)) return 0;
  for (std::size_t i = 2; i < bytes; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  return bytes;
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are controls too, two bytes in UTF-8: U+009B opens an escape sequence by itself.
    const bool second_set = bytes == 2 && byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (bytes > 0 && byte >= 0x20 && byte != 0x7f && !second_set)
      out += text.substr(i, bytes);
    else
      out += fmt::format("\\x{:02x}", second_set ? static_cast<unsigned char>(text[i + 1]) : byte);
    i += std::max<std::size_t>(bytes, 1);
  }
  return out;
}

std::string shell_quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string duration(double seconds) {
  if (!(seconds >= 0) || std::isinf(seconds)) return "?";
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

void print_wrapped(const std::string& text) {
  for (const std::string& line : wrap_text(printable(text), terminal_width())) fmt::print("{}\n", line);
}

void print_error(std::string_view text) noexcept { say_wrapped("fp4sim", text); }

void say_wrapped(std::string_view place, std::string_view text) noexcept {
  winsize size = {};
  try {
    // Lines of ours begin with two spaces; a line break in a foreign word stays \x0a.
    std::string line = std::string(place) + ": ";
    std::string_view rest = text;
    for (std::size_t end; (end = rest.find("\n  ")) != std::string_view::npos; rest.remove_prefix(end + 1))
      line += printable(rest.substr(0, end)) + "\n";
    line += printable(rest);
    if (::isatty(STDERR_FILENO) == 1 && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
      std::string lines;
      for (const std::string& part : wrap_text(line, size.ws_col)) lines += part + "\n";
      return say_text(lines);
    }
    return say_text(line + "\n");
  } catch (const std::bad_alloc&) {  // then in pieces, and as it is
  }
  for (const std::string_view part : {place, std::string_view(": "), text, std::string_view("\n")}) say_text(part);
}

}  // namespace fp4::tools
