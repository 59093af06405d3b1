#include "src/text/input_file.h"

#include <fmt/format.h>

#include "src/text/error.h"

namespace fp4 {

std::string read_file(const std::string& path, std::uint64_t most) {
  const Bytes file = open_file(path);
  if (file->size() > most) throw Error(fmt::format("{}: cannot be read: it is larger than {} MB", path, most >> 20));
  std::string content(static_cast<std::size_t>(file->size()), '\0');
  file->read(0, content.data(), content.size());
  return content;
}

}  // namespace fp4
