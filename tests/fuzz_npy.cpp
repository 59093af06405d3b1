// libFuzzer: arbitrary bytes as a .npy, both as they are and as the dictionary of a well-formed header, so that the
// mutations reach the grammar and the sizes behind it.
#include "src/files/stored_array.h"
#include "tests/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fp4::fuzz::read_all("x.npy", data, size, {.uint16_is_bfloat16 = true});
  if (size == 0 || size > 4096) return 0;
  const std::vector<std::uint8_t> file = fp4::fuzz::npy_of(data, size);
  fp4::fuzz::read_all("y.npy", file.data(), file.size());
  return 0;
}
