// libFuzzer: arbitrary bytes as a checkpoint, and as the body of one whose hash is right (so that mutations reach the
// CBOR reader and the fields inside). Only fp4::Error may come out.
#include "sim/checkpoint.h"
#include "src/error.h"
#include "src/sha256.h"

namespace {

void read_bytes(std::string_view bytes) {
  try {
    fp4::sim::parse_checkpoint(bytes, "x.checkpoint");
  } catch (const fp4::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_bytes(bytes);
  read_bytes("fp4sim checkpoint 2 " + fp4::sha256_hex(bytes) + "\n" + std::string(bytes));
  return 0;
}
