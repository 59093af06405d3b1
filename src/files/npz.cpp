// .npz = ZIP + .npy; nothing of its own but the suffix.
#include "src/files/npz.h"

#include "src/files/npy.h"
#include "src/files/zip.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

constexpr std::string_view kSuffix = ".npy";

}  // namespace

std::vector<std::string> npz_names(const Bytes& archive) {
  std::vector<std::string> names;
  for (const ZipEntry& entry : read_zip_directory(archive))
    if (entry.name.ends_with(kSuffix)) names.push_back(entry.name.substr(0, entry.name.size() - kSuffix.size()));
  return names;
}

StoredArray parse_npz(const Bytes& archive, const std::string& name) {
  std::vector<std::string> names;
  for (const ZipEntry& entry : read_zip_directory(archive)) {
    if (entry.name == name + std::string(kSuffix)) return parse_npy(open_zip_entry(archive, entry));
    // A message with thousands of names helps nobody.
    if (names.size() < 20 && entry.name.ends_with(kSuffix))
      names.push_back(entry.name.substr(0, entry.name.size() - kSuffix.size()));
  }
  throw unknown_word(archive->name() + ": array", name, names);
}

}  // namespace fp4
