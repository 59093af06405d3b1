// Container by extension, then by the first bytes; the array by name, or the only one.
#include "src/files/open_array.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "src/files/safetensors.h"
#include "src/files/stored_array.h"
#include "src/files/zip.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

enum class Container { npy, npz, safetensors };

constexpr std::string_view kNpySuffix = ".npy";

// The array of an entry of a .npz.
std::string array_of(const ZipEntry& entry) { return entry.name.substr(0, entry.name.size() - kNpySuffix.size()); }

Container container_of(const Bytes& bytes) {
  std::string name = bytes->name();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.ends_with(".npy")) return Container::npy;
  unsigned char start[9] = {};
  bytes->read(0, start, static_cast<std::size_t>(std::min<std::uint64_t>(9, bytes->size())));
  refuse_pickle(bytes);
  if (name.ends_with(".npz")) return Container::npz;
  if (name.ends_with(".safetensors")) return Container::safetensors;
  if (std::memcmp(start, "\x93NUMPY", 6) == 0) return Container::npy;
  if (std::memcmp(start, "PK\3\4", 4) == 0 || std::memcmp(start, "PK\5\6", 4) == 0) return Container::npz;
  if (start[8] == '{') return Container::safetensors;
  throw Error(
      fmt::format("{}: unknown format; accepted: .npy, .npz, .safetensors, or raw elements with --dtype and --shape",
                  bytes->name()));
}

// The wanted name, or the only one there is.
std::string choose(const Bytes& bytes, const std::string& wanted, const std::vector<std::string>& names) {
  if (!wanted.empty()) return wanted;
  if (names.size() == 1) return names[0];
  if (names.empty()) throw Error(fmt::format("{}: holds no array", bytes->name()));
  const auto some = names.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 10));
  throw Error(fmt::format("{}: holds {} arrays; write {}:NAME for one of: {}{}", bytes->name(), names.size(),
                          bytes->name(), fmt::join(names.begin(), some, ", "), names.size() > 10 ? ", ..." : ""));
}

StoredArray open_raw(const Bytes& bytes, Dtype dtype, const Shape& shape) {
  const std::uint64_t wanted = byte_count(bytes->name(), dtype, shape);
  if (wanted != bytes->size())
    throw Error(fmt::format("{}: shape {} of {} needs {} bytes, the file has {}", bytes->name(), shape_text(shape),
                            info(dtype).name, wanted, bytes->size()));
  return {.bytes = bytes, .offset = 0, .dtype = dtype, .shape = shape};
}

StoredArray open_safetensors(const Bytes& bytes, const std::string& wanted) {
  const SafetensorsHeader header = parse_safetensors(bytes);
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : header.entries) names.push_back(entry.tensor.name);
  const std::string name = choose(bytes, wanted, names);
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.tensor.name != name) continue;
    const std::uint64_t size = byte_count(bytes->name(), entry.tensor.dtype, entry.tensor.shape);
    Bytes part = open_part(bytes, bytes->name() + ":" + name, entry.begin, size);
    return {.bytes = std::move(part), .offset = 0, .dtype = entry.tensor.dtype, .shape = entry.tensor.shape};
  }
  names.resize(std::min<std::size_t>(names.size(), 20));
  throw unknown_word(bytes->name() + ": array", name, names);
}

}  // namespace

// torch.save writes a ZIP archive with the pickle NAME/data.pkl; before version 1.6 a bare pickle of protocol 2 that
// begins with the number 0x1950a86a20f9469cfc6c (torch/serialization.py, MAGIC_NUMBER). Pickles are programs: they are
// named, never read.
void refuse_pickle(const Bytes& bytes) {
  constexpr std::string_view legacy = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  std::string start(legacy.size(), '\0');
  bytes->read(0, start.data(), static_cast<std::size_t>(std::min<std::uint64_t>(start.size(), bytes->size())));
  bool pickle = start == legacy;
  if (start.starts_with("PK\3\4")) {
    try {
      for (const ZipEntry& entry : read_zip_directory(bytes))
        pickle = pickle || entry.name == "data.pkl" || entry.name.ends_with("/data.pkl");
    } catch (const Error&) {  // no archive: raw elements may begin with any bytes
    }
  }
  if (pickle)
    throw Error(
        fmt::format("{}: is a torch pickle (torch.save); save the tensors as .safetensors "
                    "(safetensors.torch.save_file) or .npy (numpy.save)",
                    bytes->name()));
}

StoredArray open_array(const Bytes& bytes, const OpenOptions& options) {
  if (options.raw_dtype) return open_raw(bytes, *options.raw_dtype, options.raw_shape);
  switch (container_of(bytes)) {
    case Container::npy:
      if (!options.entry.empty())
        throw Error(fmt::format("{}: a .npy holds one array; '{}' names none", bytes->name(), options.entry));
      return parse_npy(bytes);
    case Container::npz: return parse_npz(bytes, choose(bytes, options.entry, npz_names(bytes)));
    case Container::safetensors: break;
  }
  return open_safetensors(bytes, options.entry);
}

PathAndEntry split_entry(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return {path, ""};
  for (const std::string_view extension : {".npz:", ".safetensors:"})
    if (const std::size_t at = path.find(extension); at != std::string::npos) {
      const std::size_t colon = at + extension.size() - 1;
      return {path.substr(0, colon), path.substr(colon + 1)};
    }
  return {path, ""};
}

std::vector<std::string> npz_names(const Bytes& archive) {
  std::vector<std::string> names;
  for (const ZipEntry& entry : read_zip_directory(archive))
    if (entry.name.ends_with(kNpySuffix)) names.push_back(array_of(entry));
  return names;
}

StoredArray parse_npz(const Bytes& archive, const std::string& name) {
  std::vector<std::string> names;
  for (const ZipEntry& entry : read_zip_directory(archive)) {
    if (!entry.name.ends_with(kNpySuffix)) continue;
    if (array_of(entry) == name) return parse_npy(open_zip_entry(archive, entry));
    if (names.size() < 20) names.push_back(array_of(entry));  // a message with thousands of names helps nobody
  }
  throw unknown_word(archive->name() + ": array", name, names);
}

std::vector<ArrayPlace> list_arrays(const Bytes& bytes) {
  std::vector<ArrayPlace> places;
  switch (container_of(bytes)) {
    case Container::npy: {
      const StoredArray array = parse_npy(bytes);
      places.push_back({{"", array.dtype, array.shape, array.opaque}, bytes});
      break;
    }
    case Container::npz:
      for (ZipEntry& entry : read_zip_directory(bytes)) {
        if (!entry.name.ends_with(kNpySuffix)) continue;
        const StoredArray array = parse_npy(open_zip_entry(bytes, entry));
        places.push_back({{array_of(entry), array.dtype, array.shape, array.opaque}, bytes});
        places.back().entry = std::make_shared<const ZipEntry>(std::move(entry));
      }
      break;
    case Container::safetensors:
      for (SafetensorsEntry& entry : parse_safetensors(bytes).entries)
        places.push_back({std::move(entry.tensor), bytes, entry.begin});
      break;
  }
  return places;
}

TensorReader reader_at(const ArrayPlace& place, OpenOptions options) {
  options.entry.clear();
  if (place.entry != nullptr) return TensorReader(open_zip_entry(place.bytes, *place.entry), options);
  if (place.info.name.empty()) return TensorReader(place.bytes, options);
  const std::string name = place.bytes->name() + ":" + place.info.name;
  options.raw_dtype = place.info.dtype;
  options.raw_shape = place.info.shape;
  return TensorReader(open_part(place.bytes, name, place.offset, byte_count(name, place.info.dtype, place.info.shape)),
                      options);
}

std::vector<TensorInfo> list_tensors(const std::string& path) {
  std::vector<TensorInfo> tensors;
  for (ArrayPlace& place : list_arrays(open_file(path))) tensors.push_back(std::move(place.info));
  return tensors;
}

}  // namespace fp4
