// A list of tables, searched in order: a few dozen files do not deserve an index.
#include "src/text/embedded.h"

#include <algorithm>
#include <string>

#include "src/text/error.h"

namespace fp4 {
static std::vector<std::span<const EmbeddedFile>>& tables() {
  static std::vector<std::span<const EmbeddedFile>> registered;
  return registered;
}

void register_embedded(std::span<const EmbeddedFile> table) {
  for (const auto& known : tables())
    if (known.data() == table.data()) return;
  tables().push_back(table);
}

std::string_view embedded(std::string_view path) {
  for (const auto& table : tables())
    for (const EmbeddedFile& file : table)
      if (file.path == path) return file.content;
  const std::size_t slash = path.rfind('/');
  const std::string_view folder = slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
  const auto names = embedded_names(folder);
  throw unknown_word("built-in file", path, std::vector<std::string>(names.begin(), names.end()));
}

std::vector<std::string_view> embedded_names(std::string_view folder) {
  std::vector<std::string_view> names;
  for (const auto& table : tables())
    for (const EmbeddedFile& file : table)
      if (folder.empty() || (file.path.starts_with(folder) && file.path.substr(folder.size()).starts_with("/")))
        names.push_back(file.path);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace fp4
