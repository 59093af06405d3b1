// libFuzzer: arbitrary bytes as a .npz, and as the contents of its only entry, stored and deflated, under a directory
// that is otherwise right (so that mutations reach the inflater and the .npy inside), and as several arrays of an
// archive.
#include <zlib.h>

#include "src/files/open_array.h"
#include "src/files/zip.h"
#include "tests/fuzz_support.h"

namespace {

using fp4::fuzz::put;

struct Entry {
  std::string name;
  std::vector<std::uint8_t> data;
  unsigned method;
  std::uint64_t bytes, crc;
};

// An archive of these entries; APPNOTE 4.3.7, 4.3.12, 4.3.16.
std::vector<std::uint8_t> archive(const std::vector<Entry>& entries) {
  std::vector<std::uint8_t> file, directory;
  const auto common = [](std::vector<std::uint8_t>& to, const Entry& e) {
    for (const unsigned field : {20u, 0u, e.method, 0u, 33u}) put(to, field, 2);
    put(to, e.crc, 4);
    put(to, e.data.size(), 4);
    put(to, e.bytes, 4);
    put(to, e.name.size(), 2);
    put(to, 0, 2);
  };
  for (const Entry& e : entries) {
    const std::uint64_t offset = file.size();
    put(file, 0x04034b50, 4);
    common(file, e);
    file.insert(file.end(), e.name.begin(), e.name.end());
    file.insert(file.end(), e.data.begin(), e.data.end());
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    common(directory, e);
    put(directory, 0, 8);  // comment, disk, attributes
    put(directory, 0, 2);
    put(directory, offset, 4);
    directory.insert(directory.end(), e.name.begin(), e.name.end());
  }
  const std::uint64_t begin = file.size();
  file.insert(file.end(), directory.begin(), directory.end());
  put(file, 0x06054b50, 4);
  put(file, 0, 4);
  put(file, entries.size(), 2);
  put(file, entries.size(), 2);
  put(file, directory.size(), 4);
  put(file, begin, 4);
  put(file, 0, 2);
  return file;
}

std::vector<std::uint8_t> archive(const std::uint8_t* data, std::size_t size, unsigned method, std::uint64_t bytes,
                                  std::uint64_t crc) {
  return archive({{"a.npy", {data, data + size}, method, bytes, crc}});
}

// Lists the arrays of an archive and reads each.
void read_listed(std::vector<std::uint8_t> file) {
  try {
    for (const fp4::ArrayPlace& place : fp4::list_arrays(fp4::open_memory("several.npz", std::move(file)))) {
      try {
        fp4::TensorReader reader = fp4::reader_at(place, {});
        fp4::fuzz::read_some(reader);
      } catch (const fp4::Error&) {
      }
    }
  } catch (const fp4::Error&) {
  }
}

// As many arrays as the first byte says, each of an equal part of the rest: a byte for the name, and a .npy (fuzz_npy's
// second form) of what follows.
void read_several(const std::uint8_t* data, std::size_t size) {
  const std::size_t count = 1 + data[0] % 4, part = (size - 1) / count;
  if (part < 2 || part > 4096) return;
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* const from = data + 1 + i * part;
    const std::vector<std::uint8_t> array = fp4::fuzz::npy_of(from + 1, part - 1);
    entries.push_back({std::string(1, static_cast<char>(from[0])) + ".npy", array, 0, array.size(),
                       crc32_z(0, array.data(), array.size())});
  }
  read_listed(archive(entries));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fp4::fuzz::read_all("x.npz", data, size);
  read_listed({data, data + size});
  if (size > 1) read_several(data, size);
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
