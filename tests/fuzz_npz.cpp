// libFuzzer: arbitrary bytes as a .npz, and as the contents of its only entry, stored and deflated, under a directory
// that is otherwise right (so that mutations reach the inflater and the .npy inside).
#include <zlib.h>

#include "src/tensor_file/crc_source.h"
#include "src/tensor_file/npz.h"
#include "tests/fuzz_support.h"

namespace {

void put(std::vector<std::uint8_t>& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

// One entry "a.npy" of these contents; APPNOTE 4.3.7, 4.3.12, 4.3.16.
std::vector<std::uint8_t> archive(const std::uint8_t* data, std::size_t size, unsigned method, std::uint64_t bytes,
                                  std::uint64_t crc) {
  std::vector<std::uint8_t> file;
  const auto common = [&] {
    for (const unsigned field : {20u, 0u, method, 0u, 33u}) put(file, field, 2);
    put(file, crc, 4);
    put(file, size, 4);
    put(file, bytes, 4);
    put(file, 5, 2);
    put(file, 0, 2);
  };
  const auto name = [&] {
    for (const char c : {'a', '.', 'n', 'p', 'y'}) file.push_back(static_cast<std::uint8_t>(c));
  };
  put(file, 0x04034b50, 4);
  common();
  name();
  file.insert(file.end(), data, data + size);
  const std::uint64_t directory = file.size();
  put(file, 0x02014b50, 4);
  put(file, 20, 2);
  common();
  for (int i = 0; i < 14; ++i) file.push_back(0);  // comment, disk, attributes, offset 0
  name();
  const std::uint64_t directory_bytes = file.size() - directory;
  put(file, 0x06054b50, 4);
  put(file, 0, 4);
  put(file, 1, 2);
  put(file, 1, 2);
  put(file, directory_bytes, 4);
  put(file, directory, 4);
  put(file, 0, 2);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fp4::fuzz::read_all("x.npz", data, size);
  const auto stored = archive(data, size, 0, size, crc32_z(0, data, size));
  fp4::fuzz::read_all("stored.npz", stored.data(), stored.size());
  if (size < 2) return 0;
  // The first two bytes say how much the rest claims to inflate to; its CRC is never right, which comes last.
  const auto damaged = archive(data + 2, size - 2, 8, data[0] + 256u * data[1], 0);
  fp4::fuzz::read_all("damaged.npz", damaged.data(), damaged.size());
  // A right archive around a .npy made of the same bytes as fuzz_npy's second form.
  const std::vector<std::uint8_t> array = fp4::fuzz::npy_of(data, std::min<std::size_t>(size, 4096));
  std::vector<std::uint8_t> packed(array.size() + 1024);
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) return 0;
  stream.next_in = const_cast<Bytef*>(array.data());
  stream.avail_in = static_cast<uInt>(array.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  const auto right = archive(packed.data(), stream.total_out, 8, array.size(), crc32_z(0, array.data(), array.size()));
  deflateEnd(&stream);
  fp4::fuzz::read_all("right.npz", right.data(), right.size());
  return 0;
}
