// libFuzzer: arbitrary bytes as a .safetensors, both as they are and as the JSON of a header of the right length.
#include "src/files/safetensors.h"
#include "tests/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fp4::fuzz::read_all("x.safetensors", data, size);
  if (size == 0) return 0;
  const std::size_t elements = std::min<std::size_t>(data[0], size - 1), text = size - 1 - elements;
  std::vector<std::uint8_t> file;
  for (int shift = 0; shift < 64; shift += 8)
    file.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(text) >> shift));
  file.insert(file.end(), data + 1, data + size);
  const fp4::Bytes bytes = fp4::open_memory("y.safetensors", file);
  try {
    // Every tensor of the file, not only an only one.
    for (const fp4::SafetensorsEntry& entry : fp4::parse_safetensors(bytes).entries)
      fp4::fuzz::read_all("y.safetensors", file.data(), file.size(), {.entry = entry.tensor.name});
  } catch (const fp4::Error&) {
  }
  return 0;
}
