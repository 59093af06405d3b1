
#include <algorithm>
#include <array>
#include <filesystem>

#include "src/files/output_file.h"
#include "src/model/model_files.h"
#include "src/text/byte_source.h"
#include "src/text/error.h"

namespace fp4 {
namespace {

namespace fs = std::filesystem;

// Endings of files with weights, which a converted model has no use for.
constexpr std::array weight_endings = {".safetensors", ".gguf",   ".bin",       ".pt",     ".pth",
                                       ".ckpt",        ".h5",     ".onnx",      ".npz",    ".ot",
                                       ".msgpack",     ".tflite", ".onnx_data", ".mlmodel"};

bool is_weight(const std::string& name) {
  return std::any_of(weight_endings.begin(), weight_endings.end(), [&](const char* e) { return name.ends_with(e); });
}

void list(const fs::path& root, const fs::path& inner, bool follow_links, SideFiles& out) {
  for (const fs::directory_entry& e : fs::directory_iterator(root / inner)) {
    const std::string name = e.path().filename().string();
    const fs::path relative = inner / name;
    if (name.starts_with('.')) continue;
    if (!follow_links) refuse_link_out(root.string(), relative.string());
    if (e.is_directory()) {
      if (e.is_symlink() || fs::exists(e.path() / "fp4sim.json"))  // another result, not a part of this model
        out.left.push_back(relative.generic_string() + "/");
      else
        list(root, relative, follow_links, out);
      continue;
    }
    if (!e.is_regular_file() || name.ends_with(".index.json")) continue;
    const bool is_written = name == model_record ||
                            std::find(std::begin(config_files), std::end(config_files), name) != std::end(config_files);
    if (inner.empty() && (is_written || is_shard(name))) continue;
    (is_weight(name) ? out.left : out.taken).push_back(relative.generic_string());
  }
}

}  // namespace

SideFiles side_files(const std::string& folder, bool follow_links) {
  SideFiles out;
  try {
    list(folder, "", follow_links, out);
  } catch (const fs::filesystem_error& e) {
    throw Error(folder + ": cannot be listed: " + e.code().message());
  }
  std::sort(out.taken.begin(), out.taken.end());
  std::sort(out.left.begin(), out.left.end());
  return out;
}

void copy_side_files(const std::string& folder, const std::vector<std::string>& files, StagedFolder& out) {
  std::vector<unsigned char> buffer(size_t{1} << 20);
  for (const std::string& name : files) {
    const Bytes from = open_file((fs::path(folder) / name).string());
    OutputFile to(out.file(name).string());
    for (uint64_t at = 0; at < from->size(); at += buffer.size()) {
      const auto part = static_cast<size_t>(std::min<uint64_t>(buffer.size(), from->size() - at));
      from->read(at, buffer.data(), part);
      to.write(buffer.data(), part);
    }
    to.commit();
  }
}

}  // namespace fp4
