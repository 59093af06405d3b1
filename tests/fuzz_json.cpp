// libFuzzer: arbitrary bytes as a JSON file of every reader; the first byte chooses the reader. Only fp4::Error may
// come out.
#include <cstddef>
#include <cstdint>

#include "src/text/error.h"
#include "sweeps/carried_files.h"
#include "tests/json_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fp4::register_embedded(fp4::sweeps_data());
  if (size == 0) return 0;
  const auto& readers = fp4::test::json_readers();
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  // A file may name other files of the machine; what they hold is not this target's question.
  if (text.find(".json") != std::string::npos) return 0;
  try {
    readers[data[0] % readers.size()].read(text, "x.json");
  } catch (const fp4::Error&) {
  }
  return 0;
}
