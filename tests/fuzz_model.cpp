// libFuzzer: a text as the folder of a model, which is listed, quantised, carried and decoded. The first byte says what
// is written; the rest is files, each behind a line "#NAME". A file NAME.safetensors is lines "TENSOR DTYPE AxBxC
// [BYTE]", of which a good header and data of that byte are made, so that mutations reach what is known of tensors. A
// file NAME.gguf is such lines with types of GGUF, and entries "@KEY TYPE VALUE" with the numbers of gguf.md's types.
// Other files are as they stand. Only fp4::Error may come out.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/files/gguf.h"
#include "src/files/output.h"
#include "src/files/safetensors.h"
#include "src/files/stored_array.h"
#include "src/model/model_write.h"
#include "src/text/error.h"
#include "tests/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using fp4::fuzz::put;

struct Home {
  fs::path path = fs::temp_directory_path() / ("fp4sim_fuzz_model." + std::to_string(::getpid()));
  Home() { fp4::set_output_sync(false); }
  ~Home() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// Bytes of a .safetensors with the tensors of the lines; lines that name none are left out. At most 64 KB of data.
std::string safetensors_of(const std::string& text) {
  std::vector<fp4::TensorInfo> tensors;
  std::string data, line;
  for (std::istringstream lines(text); std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, dtype, shape;
    int byte = 0x3c;
    if (!(words >> name >> dtype >> shape)) continue;
    words >> byte;
    try {
      fp4::TensorInfo info = {name, fp4::parse_dtype("line", dtype),
                              fp4::parse_shape("line", shape == "1" ? "" : shape)};
      const std::uint64_t bytes = fp4::byte_count(name, info.dtype, info.shape);
      if (bytes + data.size() > 65536) continue;
      // Floating-point numbers of every magnitude, and bytes that repeat in no period of a block.
      for (std::uint64_t i = 0; i < bytes; ++i)
        data.push_back(static_cast<char>(byte + (byte < 0 ? static_cast<int>(i * 7) : 0)));
      tensors.push_back(std::move(info));
    } catch (const fp4::Error&) {
    }
  }
  try {
    return fp4::safetensors_header(tensors, {{"format", "pt"}}) + data;
  } catch (const fp4::Error&) {  // a name twice, or no UTF-8
    return text;
  }
}

void put_text(std::string& out, const std::string& text) {
  put(out, text.size(), 8);
  out += text;
}

// Bytes of a .gguf with the entries and tensors of the lines, whose offsets are right; lines that say neither are left
// out. At most 64 KB of data.
std::string gguf_of(const std::string& text) {
  constexpr std::size_t widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  std::string entries, tensors, data, line;
  std::uint64_t entry_count = 0, tensor_count = 0;
  for (std::istringstream lines(text); std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, type, shape;
    if (!(words >> name >> type)) continue;
    if (name.starts_with('@')) {
      const std::size_t number = type.size() < 3 ? std::strtoul(type.c_str(), nullptr, 10) : 0;
      if (number >= std::size(widths) || number == 9) continue;
      std::string value;
      std::getline(words >> std::ws, value);
      put_text(entries, name.substr(1));
      put(entries, number, 4);
      if (number == 8)
        put_text(entries, value);
      else
        put(entries, std::strtoull(value.c_str(), nullptr, 10), widths[number]);
      ++entry_count;
      continue;
    }
    const auto& types = fp4::gguf_types();
    const auto at = std::find_if(types.begin(), types.end(), [&](const fp4::GgufType& t) { return t.name == type; });
    int byte = 0x3c;
    if (at == types.end() || !(words >> shape)) continue;
    words >> byte;
    try {
      const fp4::Shape axes = fp4::parse_shape("line", shape == "1" ? "" : shape);
      const std::uint64_t bytes = fp4::element_count(name, axes) / at->block * at->bytes;
      if (bytes + data.size() > 65536) continue;
      put_text(tensors, name);
      put(tensors, axes.size(), 4);
      for (std::size_t axis = axes.size(); axis-- > 0;) put(tensors, axes[axis], 8);
      put(tensors, at->id, 4);
      put(tensors, data.size(), 8);
      for (std::uint64_t i = 0; i < bytes; ++i)
        data.push_back(static_cast<char>(byte + (byte < 0 ? static_cast<int>(i * 7) : 0)));
      data.resize((data.size() + 31) / 32 * 32);
      ++tensor_count;
    } catch (const fp4::Error&) {
    }
  }
  std::string file = "GGUF";
  put(file, 3, 4);
  put(file, tensor_count, 8);
  put(file, entry_count, 8);
  file += entries + tensors;
  file.resize((file.size() + 31) / 32 * 32);
  return file + data;
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() < 40 && name.find('/') == std::string::npos && name != "." && name != ".." &&
         name.find('\0') == std::string::npos;
}

void write_files(const fs::path& folder, const std::string& text) {
  fs::remove_all(folder);
  fs::create_directories(folder / "in");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find("\n#", at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    const size_t line = std::min(part.find('\n'), part.size());
    const std::string name = part.substr(part.starts_with('#') ? 1 : 0, line - (part.starts_with('#') ? 1 : 0));
    if (!is_name(name)) continue;
    const std::string body = line < part.size() ? part.substr(line + 1) : "";
    std::ofstream(folder / "in" / name, std::ios::binary) << (name.ends_with(".safetensors") ? safetensors_of(body)
                                                              : name.ends_with(".gguf")      ? gguf_of(body)
                                                                                             : body);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Home home;
  if (size == 0) return 0;
  write_files(home.path, std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  fp4::ModelJob job;
  job.in = (home.path / "in").string();
  job.out = (home.path / "out").string();
  job.changed = (data[0] & 64) == 0;
  job.allow_left = (data[0] & 32) != 0;
  if ((data[0] & 16) != 0) job.keep_only = {"none"};
  constexpr size_t schemes = std::size(fp4::checkpoint_schemes);
  if (const size_t which = (data[0] & 15) % (schemes + 1); which < schemes)
    job.scheme = &fp4::checkpoint_schemes[which];
  try {
    if (job.scheme != nullptr && (data[0] & 128) != 0)
      job.activations = fp4::activations_of("fuzz", "static", *job.scheme);
    fp4::convert_model(job);
    fp4::ModelJob back;  // what was written is read
    back.in = job.out;
    back.out = (home.path / "back").string();
    fp4::convert_model(back);
  } catch (const fp4::Error&) {
  }
  return 0;
}
