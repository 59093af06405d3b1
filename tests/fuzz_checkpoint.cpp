// libFuzzer: arbitrary bytes as a checkpoint, and as the body of one whose hash is right (so that mutations reach the
// CBOR reader and the fields inside). Bytes that begin with j are lines "POINTER VALUE" instead: fields of a good
// checkpoint that get another JSON value (after #: these bytes), under a right hash; it is then evaluated. Only
// fp4::Error may come out.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/train/checkpoint.h"
#include "src/files/output.h"
#include "src/files/sha256.h"
#include "src/text/error.h"
#include "sweeps/carried_files.h"
#include "tasks/run.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using fp4::sim::Json;

void read_bytes(std::string_view bytes) {
  try {
    fp4::sim::parse_checkpoint(bytes, "x.checkpoint");
  } catch (const fp4::Error&) {
  }
}

std::string sealed(std::string_view body) {
  return "fp4sim checkpoint 2 " + fp4::sha256_hex(body) + "\n" + std::string(body);
}

// A file of this process that ends with it, and the fields of a small training's checkpoint.
struct Home {
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("fp4sim_fuzz_checkpoint." + std::to_string(::getpid()));
  Json body;
  Home() {
    fp4::register_embedded(fp4::sweeps_data());
    fp4::set_output_sync(false);
    fp4::sim::RunOptions options;
    options.checkpoint_to = file.string();
    options.stop_at = 2;
    fp4::tasks::run(
        fp4::tasks::canonical({{"task", {{"name", "regression"}, {"inputs", 8}, {"width", 8}, {"outputs", 4}}},
                               {"recipe", "ue5m3_hold50"},
                               {"train", {{"steps", 4}, {"batch", 16}, {"curve_points", 3}}}}),
        5, options);
    std::ostringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    body = Json::from_cbor(bytes.str().substr(bytes.str().find('\n') + 1));
  }
  ~Home() {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }
};

// Null where the text is no JSON, or a number of a configuration by which a run takes minutes or gigabytes.
Json value_of(const std::string& pointer, const std::string& text) {
  if (text.starts_with('#')) return Json::binary({text.begin() + 1, text.end()});
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_size = pointer.starts_with("/config") && value.is_number();
  if (value.is_discarded() || (is_size && value.get<double>() > 64)) return {};
  return value;
}

void evaluate_changed(const Home& home, const std::string& lines) {
  Json body = home.body;
  std::string line;
  for (std::istringstream text(lines); std::getline(text, line);) {
    const std::string pointer = line.substr(0, line.find(' '));
    if (pointer.size() == line.size()) continue;
    try {
      const Json::json_pointer place(pointer);
      if (body.contains(place)) body[place] = value_of(pointer, line.substr(pointer.size() + 1));
    } catch (const Json::exception&) {  // no pointer
    }
  }
  const std::vector<std::uint8_t> bytes = Json::to_cbor(body);
  std::ofstream(home.file, std::ios::binary) << sealed({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  try {
    fp4::tasks::evaluate(home.file.string(), nullptr);
  } catch (const fp4::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Home home;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with('j')) {
    evaluate_changed(home, std::string(bytes.substr(1)));
    return 0;
  }
  read_bytes(bytes);
  read_bytes(sealed(bytes));
  return 0;
}
