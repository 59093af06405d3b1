#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "src/files/temporaries.h"
#include "src/text/error.h"
#include "tools/cli/streams.h"

namespace fp4::tools {

namespace {

struct FirstBytes {
  std::string_view bytes;
  size_t at;
  const char* extension;
};
// NumPy's format, version 1.0; GGUF; zip (APPNOTE 4.3.7); safetensors: a length of 8 bytes, then JSON.
constexpr FirstBytes first_bytes[] = {
    {"\x93NUMPY", 0, ".npy"}, {"GGUF", 0, ".gguf"}, {"PK\x03\x04", 0, ".npz"}, {"{", 8, ".safetensors"}};

std::string_view extension_of(std::string_view begin) {
  for (const FirstBytes& kind : first_bytes)
    if (begin.size() > kind.at && begin.substr(kind.at).starts_with(kind.bytes)) return kind.extension;
  return ".bin";
}

// Bytes read; 0 at the end.
size_t read_some(const std::string& place, char* to, size_t size) {
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, to, size);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) throw Error(fmt::format("{} -: standard input: {}", place, std::strerror(errno)));
  }
}

}  // namespace

std::string input_path(const std::string& word, const std::string& place) {
  if (word != "-") return word;
  if (::isatty(STDIN_FILENO) == 1)
    throw Error(place + " -: standard input is a terminal; expected the bytes of a tensor file from a pipe");
  static bool is_read = false;
  if (is_read) throw Error(place + " -: standard input can be read once");
  is_read = true;
  // Both are kept to the end of the process, which removes what is listed.
  static TemporaryPath* const folder = new TemporaryPath(
      (temporary_folder() / fmt::format("fp4sim_stdin_{}", ::getpid())).string(), TemporaryKind::folder);
  if (const int error = folder->make(); error != 0)
    throw Error(fmt::format("{} -: {}: {}", place, folder->path(), std::strerror(error)), Error::failed);
  std::string begin;
  std::array<char, 1 << 16> block;
  while (begin.size() < 16) {
    const size_t count = read_some(place, block.data(), block.size());
    if (count == 0) break;
    begin.append(block.data(), count);
  }
  static TemporaryPath* const copy =
      new TemporaryPath(fmt::format("{}/stdin{}", folder->path(), extension_of(begin)), TemporaryKind::file);
  const std::string& path = copy->path();
  if (const int error = copy->make(); error != 0)
    throw Error(fmt::format("{} -: {}: {}", place, path, std::strerror(error)), Error::failed);
  std::ofstream file(path, std::ios::binary);
  file.write(begin.data(), static_cast<std::streamsize>(begin.size()));
  for (size_t count = block.size(); count > 0 && file;) {
    count = read_some(place, block.data(), block.size());
    file.write(block.data(), static_cast<std::streamsize>(count));
  }
  file.close();
  if (!file) throw Error(fmt::format("{} -: {}: {}", place, path, std::strerror(errno)), Error::failed);
  return path;
}

}  // namespace fp4::tools
