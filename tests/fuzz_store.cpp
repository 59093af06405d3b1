// libFuzzer: a store whose file or whose texts the bytes change (fuzz_store.h).
#include "tests/fuzz_store.h"

#include <unistd.h>

#include "sweeps/engine/store.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fp4::fuzz::StoreFuzzer fuzzer(std::filesystem::temp_directory_path() /
                                             ("fuzz_store_" + std::to_string(::getpid())));
  fuzzer.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
