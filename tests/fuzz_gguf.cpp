// libFuzzer: arbitrary bytes as a .gguf, as they are and as what follows the magic number, version and counts of a good
// one. What can be listed is read: metadata, entries, and the first rows of each tensor. Only fp4::Error may come out.
#include "src/files/gguf.h"
#include "tests/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void read_gguf(std::vector<std::uint8_t> file) {
  const fp4::Bytes bytes = fp4::open_memory("x.gguf", std::move(file));
  try {
    fp4::metadata_of(bytes);
    fp4::entries_of(bytes);
  } catch (const fp4::Error&) {
  }
  try {
    for (const fp4::GgufTensor& t : fp4::list_gguf(bytes)) {
      std::vector<unsigned char> part(std::min<std::uint64_t>(t.bytes, 1 << 16));
      bytes->read(t.offset, part.data(), part.size());
    }
  } catch (const fp4::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_gguf({data, data + size});
  if (size < 2) return 0;
  std::vector<std::uint8_t> file = {'G', 'G', 'U', 'F', 3, 0, 0, 0};
  for (const int at : {0, 1})  // numbers of tensors and entries
    for (int byte = 0; byte < 8; ++byte) file.push_back(byte == 0 ? data[at] : 0);
  file.insert(file.end(), data + 2, data + size);
  read_gguf(std::move(file));
  return 0;
}
